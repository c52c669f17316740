"""Which core type a statement of a pipelined loop belongs to, as the pipeline passes decide."""

from __future__ import annotations

from collections.abc import Iterator

from kernels_npu.sim import ir
from kernels_npu.sim.passes.ownership import CUBE, VECTOR, parallel_store_owner
from kernels_npu.sim.passes.parallel_lowering import lower_parallel
from kernels_npu.sim.passes.pipelining.injection import num_stages
from kernels_npu.sim.passes.rewriting import operand_buffer
from kernels_npu.sim.passes.substitution import Body

_SIDE = {"ub": VECTOR, "var": VECTOR, "l1": CUBE, "l0a": CUBE, "l0b": CUBE, "l0c": CUBE}

_STORES = {("l0c", "global"), ("ub", "global")}


class Sides:
    """The core type of each statement; what names no buffer belongs with the statement before."""

    def __init__(self) -> None:
        self.current: str | None = None

    def of(self, stmt: ir.Stmt) -> Iterator[str]:
        """The core type of every elementary statement in `stmt` that has one, in order."""
        if isinstance(stmt, ir.Parallel):
            yield from self._parallel(stmt)
            return
        nested = ir.children(stmt)
        if nested or isinstance(stmt, (ir.Let, ir.Break)):
            for part in nested:
                for inner in part:
                    yield from self.of(inner)
            return
        if isinstance(stmt, ir.Store):
            self.current = _SIDE.get(stmt.buffer.scope)
        elif isinstance(stmt, ir.TileOp):
            self._tile_op(stmt)
        if self.current is not None:
            yield self.current

    def _tile_op(self, op: ir.TileOp) -> None:
        buffers = [b for operand in op.operands if (b := operand_buffer(operand)) is not None]
        if buffers:
            self.current = next((_SIDE[b.scope] for b in buffers if b.scope in _SIDE), None)

    def _parallel(self, loop: ir.Parallel) -> Iterator[str]:
        vectorised = lower_parallel(loop) is not None
        for stmt in loop.body:
            if isinstance(stmt, ir.Store):
                owner = parallel_store_owner(stmt)
                self.current = owner if vectorised else _SIDE.get(stmt.buffer.scope)
                if self.current is not None:
                    yield self.current


def mixed_loops(body: Body) -> list[ir.For]:
    """The pipelined loops whose own statements belong to both core types.

    A pipelined loop nested in another one is not found, and does not count for the outer one.
    """
    found: list[ir.For] = []
    for stmt in body:
        if num_stages(stmt):
            assert isinstance(stmt, ir.For)
            sides = Sides()
            if len({side for inner in _without_nested(stmt.body) for side in sides.of(inner)}) > 1:
                found.append(stmt)
            continue
        for part in ir.children(stmt):
            found += mixed_loops(part)
    return found


def _without_nested(body: Body) -> Iterator[ir.Stmt]:
    """Elementary tile operations of `body` outside nested pipelined loops; stores do not count."""
    for stmt in body:
        if num_stages(stmt):
            continue
        if isinstance(stmt, (ir.TileOp, ir.Parallel)):
            yield stmt
        for part in ir.children(stmt) if not isinstance(stmt, ir.Parallel) else ():
            yield from _without_nested(part)


def stores_to_memory(body: Body) -> bool:
    """Whether some statement writes a tile to global memory."""
    for stmt in ir.walk(body):
        if isinstance(stmt, ir.TileOp) and stmt.op in ("copy", "atomic_add"):
            source, target = (operand_buffer(operand) for operand in stmt.operands[:2])
            if stmt.op == "atomic_add":
                source, target = target, source
            if source is not None and target is not None:
                if (source.scope, target.scope) in _STORES:
                    return True
        elif isinstance(stmt, ir.Parallel) and lower_parallel(stmt) is not None:
            if any(isinstance(s, ir.Store) and s.buffer.scope == "global" for s in stmt.body):
                return True
    return False
