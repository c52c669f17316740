"""Values that pass between the stages of a cross-core pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kernels_npu.sim import ir
from kernels_npu.sim.passes.parallel_lowering import lower_parallel
from kernels_npu.sim.passes.pipelining.accesses import Access, Accesses
from kernels_npu.sim.passes.substitution import Body


def shared_buffers(stages: Sequence[Body], accesses: Accesses) -> list[ir.Buffer]:
    """Buffers used in several stages of which one reads data that it has not written itself.

    "Written" is what the compiler can prove from constant offsets and extents.
    """
    used: dict[ir.Buffer, list[int]] = {}
    for number, stage in enumerate(stages):
        for access in _all(stage, accesses):
            places = used.setdefault(access.buffer, [])
            if access.buffer.scope != "global" and (not places or places[-1] != number):
                places.append(number)
    return [
        buffer
        for buffer, places in used.items()
        if len(places) > 1
        and any(_reads_foreign_data(stages[number], buffer, accesses) for number in places)
    ]


def _all(body: Body, accesses: Accesses) -> Iterator[Access]:
    for stmt in body:
        yield from accesses.of(stmt)


def _reads_foreign_data(stage: Body, buffer: ir.Buffer, accesses: Accesses) -> bool:
    reads = [a for a in _all(stage, accesses) if a.buffer is buffer and a.read]
    return any(exposed(stage, read, accesses)[0] for read in reads)


def exposed(
    body: Body, target: Access, accesses: Accesses, covered: bool = False
) -> tuple[bool, bool]:
    """(some read of `target` may see older data, `body` surely overwrites `target`)."""
    any_read, any_kill = False, False
    for stmt in body:
        read, kill = _exposed(stmt, target, accesses, covered or any_kill)
        any_read |= read
        any_kill |= kill
    return any_read, any_kill


def _exposed(stmt: ir.Stmt, target: Access, accesses: Accesses, covered: bool) -> tuple[bool, bool]:
    if isinstance(stmt, ir.If):
        branches = [exposed(part, target, accesses, covered) for part in (stmt.then, stmt.orelse)]
        return any(read for read, _ in branches), all(kill for _, kill in branches)
    own = [a for a in accesses.own(stmt) if a.buffer is target.buffer]
    read = any(a.read and a.overlaps(target) for a in own) and not covered
    kill = any(a.write and a.covers(target) for a in own)
    if not isinstance(stmt, ir.Parallel) or lower_parallel(stmt) is None:
        for part in ir.children(stmt):
            inner_read, inner_kill = exposed(part, target, accesses, covered)
            read, kill = read or inner_read, kill or inner_kill
    return read, kill


def first_foreign_read(stage: Body, buffer: ir.Buffer, accesses: Accesses) -> ir.Stmt | None:
    """The statement that reads `buffer` before anything in `stage` writes it."""
    for stmt in stage:
        for inner in ir.walk((stmt,)):
            for access in accesses.own(inner):
                if access.buffer is not buffer:
                    continue
                if access.read:
                    return inner
                if access.write:
                    return None
    return None
