"""Findings about a whole kernel or launch: what the passes say, grid sizes, flags left set."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kernels_npu.errors import AscendInferError, SourceLocation, UnsupportedError
from kernels_npu.sim import ir
from kernels_npu.sim.config import Checks
from kernels_npu.sim.machine.block_state import BlockGroup, LaunchState
from kernels_npu.sim.machine.cross_flags import CrossFlags
from kernels_npu.sim.machine.findings import ERROR, WARNING, Finding
from kernels_npu.sim.machine.instruction import LoweringContext
from kernels_npu.sim.machine.shadow import CORES, CORES_PER_BLOCK
from kernels_npu.sim.machine.sync_advice import Advice
from kernels_npu.sim.passes import LoweredKernel
from kernels_npu.sim.soc import Soc


def lowering_findings(lowered: LoweredKernel, checks: Checks) -> Iterator[Finding]:
    """What the passes noted."""
    for note in lowered.notes:
        if note.code.startswith("AI-MEM") and not checks.capacity:
            continue
        if note.code.startswith("AI-SYNC") and not checks.settings:
            continue
        yield Finding(
            code=note.code,
            severity=note.severity,
            message=note.message,
            kernel=lowered.func.name,
            loc=note.loc,
        )


def static_findings(kernel: str, context: LoweringContext, checks: Checks) -> Iterator[Finding]:
    """What the operations noted while the programs were generated."""
    for code, severity, message, stmt in context.notes:
        if code.startswith("AI-TYPE") and not checks.dtypes:
            continue
        if code.startswith("AI-BOUND") and not (checks.bounds or checks.alignment):
            continue
        if code.startswith("AI-MEM") and not checks.capacity:
            continue
        yield Finding(code=code, severity=severity, message=message, kernel=kernel, loc=stmt.loc)


def refusal(
    kernel: str, error: AscendInferError, fallback: SourceLocation | None = None
) -> Finding:
    """A statement that the compiler refuses, or (a warning) the machine, as a finding."""
    return Finding(
        code=error.code,
        severity=WARNING if isinstance(error, UnsupportedError) else ERROR,
        message=error.what,
        kernel=kernel,
        loc=error.where if isinstance(error.where, SourceLocation) else fallback,
        rule=error.rule or "",
        fix=error.fix or "",
    )


def one_sided_barriers(lowered: LoweredKernel, target: str) -> Iterator[Finding]:
    """`sync_all` that only one core type reaches: on AscendC it waits for the other one forever."""
    calls = [
        next((s for s in ir.walk(body) if isinstance(s, ir.SyncAll)), None)
        for body in (lowered.cube, lowered.vector)
    ]
    if target == "pto" or (calls[0] is None) == (calls[1] is None):
        return
    present, other = ("cube", "V") if calls[1] is None else ("vector", "C")
    stmt = calls[0] or calls[1]
    assert stmt is not None
    yield Finding(
        code="AI-SYNC-009",
        severity=ERROR,
        message=f"T.sync_all() is reached by {present} cores only; on target ascendc it waits for "
        "the cores of both types",
        kernel=lowered.func.name,
        loc=stmt.loc,
        fix=f'call T.sync_all() as often in T.Scope("{other}")',
    )


def too_many_blocks(func: ir.PrimFunc, grid: int, soc: Soc) -> Finding:
    """Blocks that wait for each other must all run at the same time."""
    return Finding(
        code="AI-SYNC-008",
        severity=ERROR,
        message=f"{grid} blocks wait for each other (sync_all or a mode 0 flag), {soc.name} runs "
        f"{soc.cube_cores} at a time",
        kernel=func.name,
        loc=func.loc,
        fix=f"launch at most {soc.cube_cores} blocks and loop over the work",
    )


def report_leftovers(group: BlockGroup, flags: CrossFlags) -> None:
    """Flags that are still set when the blocks of `group` end."""
    launch = group.launch
    assert launch is not None
    for number, src, dst, event, count, site in group.monitor.leftover_flags():
        slot, core = divmod(number, CORES_PER_BLOCK)
        sites = group.states[slot].sites[core]
        flag = sites[site].stmt
        assert isinstance(flag, ir.SetFlag)
        _left_set(
            launch,
            ("leftover", core > 0, src, dst, event),
            f"flag {src}->{dst} event {event} is still set {count} time(s) at the end of the "
            f"kernel ({CORES[core]}); the next launch would find it set",
            flag,
            lambda: launch.advisors.flags(core, sites).for_set(flag),  # noqa: B023 (called at once)
        )
    for (slot, core), number, count, (setter, site) in flags.leftovers():
        cross = group.states[slot].sites[setter][site].stmt
        assert isinstance(cross, ir.SetCrossFlag)
        _left_set(
            launch,
            ("cross leftover", core > 0, number),
            f"cross-core flag {number} is still set {count} time(s) at the end of the kernel "
            f"({CORES[core]}); the next launch would find it set",
            cross,
            lambda: launch.advisors.cross.for_set(core, cross),  # noqa: B023 (called at once)
        )


def _left_set(
    launch: LaunchState,
    key: tuple[object, ...],
    message: str,
    last: ir.Stmt,
    advise: Callable[[], Advice],
) -> None:
    if launch.log.seen(key):
        return
    advice = advise()
    finding = Finding(
        code="AI-SYNC-003",
        severity=WARNING,
        message=message,
        kernel=launch.kernel,
        loc=last.loc,
        fix=advice.text,
        insertions=advice.insertions,
    )
    launch.log.add(key, finding)
