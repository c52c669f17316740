"""What only a look at the whole kernel shows: outputs nobody writes, flags nobody sets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kernels_npu.sim import ir
from kernels_npu.sim.dtypes import bytes_of
from kernels_npu.sim.ir_printer import format_expr
from kernels_npu.sim.machine.findings import ERROR, WARNING, Finding
from kernels_npu.sim.machine.outputs import unwritten_outputs, written_tensors
from kernels_npu.sim.machine.program import CoreProgram
from kernels_npu.sim.passes import LoweredKernel
from kernels_npu.sim.passes.ownership import CUBE, VECTOR
from kernels_npu.sim.passes.rewriting import element_count

#: Event ids that the hardware documents per pair of pipes; 8 to 15 are seen to work.
_EVENT_IDS, _USABLE_IDS = 8, 16


def structural_findings(
    lowered: LoweredKernel, out_idx: Sequence[int], workspace_idx: Sequence[int]
) -> list[Finding]:
    """Findings about the kernel as a whole."""
    return [
        *unwritten_outputs(lowered, out_idx, workspace_idx),
        *(() if out_idx else _without_effect(lowered)),
        *_flags(lowered),
        *_cross_flags(lowered),
    ]


def _finding(
    lowered: LoweredKernel,
    code: str,
    severity: str,
    message: str,
    stmt: ir.Stmt | None,
    fix: str,
) -> Finding:
    return Finding(
        code=code,
        severity=severity,
        message=message,
        kernel=lowered.func.name,
        loc=stmt.loc if stmt is not None else lowered.func.loc,
        fix=fix,
    )


def _without_effect(lowered: LoweredKernel) -> Iterator[Finding]:
    """A kernel that returns nothing and writes nothing."""
    if lowered.func.tensors and not written_tensors(lowered):
        yield _finding(
            lowered,
            "AI-INIT-002",
            WARNING,
            "no tensor is ever written: the kernel has no effect",
            None,
            "copy the result to a tensor parameter",
        )


def unwritten_reads(lowered: LoweredKernel, programs: Sequence[CoreProgram]) -> Iterator[Finding]:
    """Reads of buffers into whose bytes nothing is ever written."""
    sites = [site for program in programs for site in program.sites]
    written = {f.view.buffer for s in sites for f in s.footprints if f.write}
    placed = [(b.scope, *_range(lowered, b)) for b in written if b in lowered.placements]
    for site in sites:
        for footprint in site.footprints:
            buffer = footprint.view.buffer
            if footprint.write or footprint.conditional or buffer not in lowered.placements:
                continue
            first, last = _range(lowered, buffer)
            if not any(s == buffer.scope and a < last and first < b for s, a, b in placed):
                yield _finding(
                    lowered,
                    "AI-INIT-004",
                    WARNING,
                    f"{site.op} reads {buffer.name}, which nothing ever writes",
                    site.stmt,
                    f"load or fill {buffer.name} first",
                )


def _range(lowered: LoweredKernel, buffer: ir.Buffer) -> tuple[int, int]:
    """The bytes that a buffer occupies in its memory."""
    start = lowered.placements[buffer]
    return start, start + (element_count(buffer) or 0) * bytes_of(buffer.dtype)


def _flags(lowered: LoweredKernel) -> Iterator[Finding]:
    """Waits that no set can satisfy, sets that nobody waits for, ids that do not exist."""
    for core, body in ((CUBE, lowered.cube), (VECTOR, lowered.vector)):
        sets = [s for s in ir.walk(body) if isinstance(s, ir.SetFlag)]
        waits = [s for s in ir.walk(body) if isinstance(s, ir.WaitFlag)]
        yield from _event_ids(lowered, (*sets, *waits))
        for wait in waits:
            if not any(_same_flag(wait, other) for other in sets):
                yield _finding(
                    lowered,
                    "AI-SYNC-001",
                    ERROR,
                    f"{_flag(wait)} is waited for in the {core} program, where nothing sets it",
                    wait,
                    f"set {_flag(wait)} on the same core before this line",
                )
        for given in sets:
            if not any(_same_flag(given, other) for other in waits):
                yield _finding(
                    lowered,
                    "AI-SYNC-003",
                    WARNING,
                    f"{_flag(given)} is set in the {core} program, where nothing waits for it",
                    given,
                    f"wait for {_flag(given)} on the same core, or remove the set",
                )


def _event_ids(
    lowered: LoweredKernel, flags: Sequence[ir.SetFlag | ir.WaitFlag]
) -> Iterator[Finding]:
    for stmt in flags:
        event = stmt.event_id
        if isinstance(event, ir.Const) and not 0 <= event.value < _EVENT_IDS:
            yield _finding(
                lowered,
                "AI-SYNC-007",
                WARNING if 0 <= event.value < _USABLE_IDS else ERROR,
                f"event id {event.value} of {stmt.src}->{stmt.dst}; "
                f"each pair of pipes has ids 0 to {_EVENT_IDS - 1}",
                stmt,
                f"use an id from 0 to {_EVENT_IDS - 1}",
            )


def _flag(stmt: ir.SetFlag | ir.WaitFlag) -> str:
    return f"flag {stmt.src}->{stmt.dst} event {format_expr(stmt.event_id)}"


def _same_flag(a: ir.SetFlag | ir.WaitFlag, b: ir.SetFlag | ir.WaitFlag) -> bool:
    return (a.src, a.dst) == (b.src, b.dst) and _may_equal(a.event_id, b.event_id)


def _may_equal(a: ir.Expr, b: ir.Expr) -> bool:
    return not (isinstance(a, ir.Const) and isinstance(b, ir.Const)) or a.value == b.value


def _cross_flags(lowered: LoweredKernel) -> Iterator[Finding]:
    """Cross-core waits that the other side can never satisfy."""
    everything = [*ir.walk(lowered.cube), *ir.walk(lowered.vector)]
    sets = [s for s in everything if isinstance(s, ir.SetCrossFlag)]
    waits = {id(s): s for s in everything if isinstance(s, ir.WaitCrossFlag)}
    for stmt in waits.values():
        if not any(_may_equal(stmt.flag_id, s.flag_id) for s in sets):
            yield _finding(
                lowered,
                "AI-SYNC-001",
                ERROR,
                f"waits for cross-core flag {format_expr(stmt.flag_id)}, which nothing sets",
                stmt,
                "set the flag on the core that this one waits for",
            )
    for given in {id(s): s for s in sets}.values():
        if not any(_may_equal(given.flag_id, w.flag_id) for w in waits.values()):
            yield _finding(
                lowered,
                "AI-SYNC-003",
                WARNING,
                f"sets cross-core flag {format_expr(given.flag_id)}, for which nothing waits",
                given,
                "wait for the flag on the other core, or remove the set",
            )
