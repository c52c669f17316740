"""Hints about flags and barriers that order nothing: before a launch from the ranges that the pipes
touch, after it from what the cores learned by them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import product

from kernels_npu.sim import ir
from kernels_npu.sim.ir_printer import format_expr
from kernels_npu.sim.machine.binding import BoundCore
from kernels_npu.sim.machine.block_state import LaunchState
from kernels_npu.sim.machine.findings import HINT, Finding
from kernels_npu.sim.machine.operands import View
from kernels_npu.sim.machine.program import CoreProgram
from kernels_npu.sim.machine.sites import Footprint, Site

PipePair = tuple[str, str]


def report_useless(launch: LaunchState, cores: Iterable[BoundCore]) -> None:
    """What the cores found to tell nothing new in this launch, unless the launch is wrong."""
    useful: set[int] = set()
    useless: dict[int, tuple[ir.Stmt, int]] = {}
    for core in cores:
        watch = core.runtime.watched
        core.runtime.watch = core.runtime.watched = None
        if watch is None:
            continue
        useful |= {id(stmt) for stmt in watch.useful()}
        for stmt, count in watch.useless():
            useless[id(stmt)] = stmt, count + useless.get(id(stmt), (stmt, 0))[1]
    if launch.log.errors():
        return
    for stmt, count in useless.values():
        if id(stmt) in useful:
            continue
        what = f"T.barrier_all() finds nothing to wait for in any of {count:,} executions"
        if isinstance(stmt, ir.WaitFlag):
            what = (
                f"{_call(stmt)} tells {stmt.dst} nothing that it did not know, in any of {count:,} "
                "executions"
            )
        _hint(launch, stmt, what)


def _hint(launch: LaunchState, stmt: ir.Stmt, what: str) -> None:
    launch.log.add(
        ("redundant", stmt.loc),
        Finding(
            code="AI-SYNC-011",
            severity=HINT,
            message=what,
            kernel=launch.kernel,
            loc=stmt.loc,
        ),
    )


def unshared_flags(kernel: str, programs: Sequence[CoreProgram]) -> Iterator[Finding]:
    """Flags between pipes of which none touches, first or at last, bytes that the other writes."""
    seen: set[PipePair] = set()
    for program in programs:
        flags = [s.stmt for s in program.sites if isinstance(s.stmt, ir.WaitFlag)]
        pairs = {(f.src, f.dst) for f in flags} - seen
        edges = pairs | {
            fence
            for site in program.sites
            if (instruction := site.instruction) is not None
            for fence in (*instruction.fences_before, *instruction.fences_after)
        }
        for src, dst in sorted(pairs):
            if "S" in (src, dst) or _shared(program.sites, edges, src, dst):
                seen.add((src, dst))
                continue
        for flag in flags:
            if (flag.src, flag.dst) not in seen:
                yield Finding(
                    code="AI-SYNC-011",
                    severity=HINT,
                    message=f"{_call(flag)}: nothing that {flag.src} touches before is touched by "
                    f"{flag.dst} after it",
                    kernel=kernel,
                    loc=flag.loc,
                )


def idle_barriers(kernel: str, bodies: Collection[tuple[ir.Stmt, ...]]) -> Iterator[Finding]:
    """Barriers at the end of a program: no instruction follows that could have to wait."""
    last = [_trailing_barriers(body) for body in bodies]
    places = {stmt.loc: stmt for stmts in last for stmt in stmts}
    needed = {
        stmt.loc
        for body, trailing in zip(bodies, last)
        for stmt in ir.walk(body)
        if isinstance(stmt, ir.PipeBarrier) and stmt not in trailing
    }
    for loc in places:
        if loc not in needed:
            yield Finding(
                code="AI-SYNC-011",
                severity=HINT,
                message="T.barrier_all() at the end of the program: no instruction follows",
                kernel=kernel,
                loc=loc,
            )


def _trailing_barriers(body: tuple[ir.Stmt, ...]) -> list[ir.PipeBarrier]:
    found: list[ir.PipeBarrier] = []
    for stmt in reversed(body):
        if not isinstance(stmt, ir.PipeBarrier):
            break
        found.append(stmt)
    return found


def _shared(sites: Sequence[Site], edges: set[PipePair], src: str, dst: str) -> bool:
    """Whether some pipe that leads to `src` and one that `dst` leads to conflict.

    What leads there through `dst` is ordered by that pipe alone, likewise what leads on from `src`.
    """
    before = _reach({(b, a) for a, b in edges}, src, without=dst)
    after = _reach(edges, dst, without=src)
    if "S" in after or any(
        isinstance(s.stmt, ir.SetCrossFlag) and s.stmt.pipe in after for s in sites
    ):
        return True  # goes on to other pipes or cores
    first = [(s, f) for s in sites if s.pipe in before for f in s.footprints]
    second = [(s, f) for s in sites if s.pipe in after for f in s.footprints]
    return any(_conflict(a, b) and not _fenced(x, y) for (x, a), (y, b) in product(first, second))


def _fenced(first: Site, second: Site) -> bool:
    """Whether one of the two operations orders the other one itself."""
    pair = (first.pipe, second.pipe)
    return (first.instruction is not None and pair in first.instruction.fences_after) or (
        second.instruction is not None and pair in second.instruction.fences_before
    )


def _reach(edges: set[PipePair], start: str, *, without: str) -> set[str]:
    found = {start}
    while more := {b for a, b in edges if a in found} - found - {without}:
        found |= more
    return found


def _conflict(one: Footprint, other: Footprint) -> bool:
    """Whether two footprints may share a byte that one of them writes."""
    if not (one.write or other.write):
        return False
    a, b = one.view, other.view
    if not isinstance(a, View) or not isinstance(b, View):
        # Tensors may lie in one storage.
        return not isinstance(a, View) and not isinstance(b, View)
    if a.memory != b.memory:
        return False
    spans = [(f.address, f.address + _bytes(v)) for f, v in ((one, a), (other, b))]
    return a.overruns or b.overruns or (spans[0][0] < spans[1][1] and spans[1][0] < spans[0][1])


def _bytes(view: View) -> int:
    size = view.itemsize
    for extent in view.buffer.shape:
        size *= int(ir.as_expr(extent).value)  # type: ignore[attr-defined]
    return size


def _call(flag: ir.WaitFlag) -> str:
    return f'T.wait_flag("{flag.src.lower()}", "{flag.dst.lower()}", {format_expr(flag.event_id)})'
