"""The report of a deadlock: what every core waits for, who set it so far, and who could."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kernels_npu.sim import ir
from kernels_npu.sim.ir_printer import format_expr
from kernels_npu.sim.machine.findings import ERROR, Finding
from kernels_npu.sim.machine.shadow import CORES
from kernels_npu.sim.machine.sync_advice import Advice

if TYPE_CHECKING:
    from kernels_npu.sim.machine.scheduler import Running


def deadlock_finding(cores: Sequence[Running]) -> Finding:
    """The finding for cores of which none can go on."""
    launch = cores[0].core.runtime.state.launch
    rows: list[str] = []
    first = None
    advice: Advice | None = None
    for running in cores:
        stmt = _waiting_at(running)
        if stmt is not None:
            first = first or stmt.loc
            advice = advice or _advice(running, stmt)
        rows += _rows(running, stmt)
    return Finding(
        code="AI-SYNC-002",
        severity=ERROR,
        message="deadlock, every live core waits",
        kernel=launch.kernel,
        loc=first,
        details=tuple(rows),
        fix="" if advice is None else advice.text,
        insertions=() if advice is None else advice.insertions,
    )


def _waiting_at(running: Running) -> ir.Stmt | None:
    waiting = running.waiting
    if running.finished or waiting is None or waiting[0] == "drain":
        return None
    site: int = waiting[-1]
    return running.core.source.sites[site].stmt


def _rows(running: Running, stmt: ir.Stmt | None) -> Iterator[str]:
    core, waiting = running.core, running.waiting
    name = f"block {core.runtime.state.block} {CORES[core.index]}"
    blocked = [] if core.queues is None else core.queues.blocked_on()
    if running.finished and not blocked:
        yield f"{name}: finished"
        return
    what = _awaited(running)
    where = "" if stmt is None else f" at {stmt.loc}"
    yield f"{name}: waits for {what}{where}"
    if isinstance(stmt, ir.WaitCrossFlag) and waiting is not None:
        yield f"    {_setters(running, stmt, int(waiting[1]))}"
    for line in blocked:
        yield f"{name}: {line}"


def _awaited(running: Running) -> str:
    waiting = running.waiting
    if running.finished or waiting is None:
        return "pending instructions"
    if waiting[0] == "cross":
        return f"cross-core flag {waiting[1]}"
    if waiting[0] == "flag":
        return f"flag {waiting[1]}->S event {waiting[2]}"
    return "its pipes to drain" if waiting[0] == "drain" else "sync_all"


def _setters(running: Running, wait: ir.WaitCrossFlag, flag: int) -> str:
    """Who has set the flag so far, and where it could be set."""
    runtime = running.core.runtime
    assert runtime.cross_flags is not None
    sets = runtime.cross_flags.sets_of(runtime.slot, flag)
    counted = ", ".join(f"{CORES[core]} {count}" for core, count in sets.items())
    so_far = f"set so far by {counted}" if counted else "never set in this block"
    places, foreign = _places(running, wait)
    if places:
        return f"{so_far}; it is set at {', '.join(places)}"
    if foreign:
        return (
            f"{so_far}; the T.set_cross_flag at {', '.join(foreign)} stands in code that the "
            "core meant to set it never executes (T.Scope or a branch)"
        )
    return f"{so_far}; the kernel has no T.set_cross_flag for it"


def _places(running: Running, wait: ir.WaitCrossFlag) -> tuple[list[str], list[str]]:
    """Lines that set the flag: those that a core which can release the wait has, and others."""
    advisors = running.core.runtime.state.launch.advisors
    name = format_expr(wait.flag_id)
    places: list[str] = []
    foreign: list[str] = []
    for kind, program in enumerate(advisors.programs):
        for stmt in program.every(ir.SetCrossFlag):
            assert isinstance(stmt, ir.SetCrossFlag)
            if format_expr(stmt.flag_id) == name:
                across = kind != min(running.core.index, 1)
                releases = across if stmt.mode == 2 else not across
                (places if releases else foreign).append(str(stmt.loc))
    known = {*places, *foreign}
    for stmt in ir.walk(advisors.func.body):
        if isinstance(stmt, ir.SetCrossFlag) and format_expr(stmt.flag_id) == name:
            if str(stmt.loc) not in known:
                foreign.append(str(stmt.loc))
    return list(dict.fromkeys(places)), list(dict.fromkeys(foreign))


def _advice(running: Running, stmt: ir.Stmt) -> Advice | None:
    if not isinstance(stmt, ir.WaitCrossFlag):
        return None
    advisors = running.core.runtime.state.launch.advisors
    return advisors.cross.for_wait(running.core.index, stmt)
