"""Which statements both vector cores of a block execute alike.

A kernel splits work between its two vector cores by `vid`. What does not depend on it, neither by
its operands nor by the control flow around it, is executed by both with the same values: storing
the same bytes to the same place twice is harmless.
"""

from __future__ import annotations

from collections.abc import Iterator

from kernels_npu.sim import ir
from kernels_npu.sim.passes.rewriting import loads, operand_buffer, root_of, variables


def same_on_both_cores(body: tuple[ir.Stmt, ...], vid: ir.Var) -> frozenset[int]:
    """Ids of the leaf statements of a vector program that do not depend on `vid`.

    Global memory is one for both cores, so what is read from it at equal addresses is equal.
    """
    analysis = _Analysis(vid)
    while analysis.visit(body, dependent=False):
        pass
    return frozenset(analysis.independent)


class _Analysis:
    """Grows the sets of variables and on-chip buffers that depend on `vid`."""

    def __init__(self, vid: ir.Var) -> None:
        self._vars = {vid.uid}
        self._buffers: set[int] = set()
        self.independent: set[int] = set()

    def visit(self, body: tuple[ir.Stmt, ...], *, dependent: bool) -> bool:
        """One pass; whether a set has grown."""
        before = len(self._vars) + len(self._buffers)
        if not dependent:
            self.independent -= {id(stmt) for stmt in body}
        for stmt in body:
            inside = dependent or self._depends(stmt)
            if inside:
                self._spread(stmt)
            elif not ir.children(stmt):
                self.independent.add(id(stmt))
            for nested in ir.children(stmt):
                self.visit(nested, dependent=inside)
            if inside:
                self.independent.discard(id(stmt))
        return len(self._vars) + len(self._buffers) > before

    def _depends(self, stmt: ir.Stmt) -> bool:
        return (
            any(var.uid in self._vars for var in variables(stmt))
            or any(self._is_split(load.buffer) for load in loads(stmt))
            or any(self._is_split(buffer) for buffer in _operands(stmt))
        )

    def _is_split(self, buffer: ir.Buffer) -> bool:
        return root_of(buffer).uid in self._buffers

    def _spread(self, stmt: ir.Stmt) -> None:
        """What a dependent statement sets depends on `vid` as well."""
        if isinstance(stmt, ir.Let):
            self._vars.add(stmt.var.uid)
        if isinstance(stmt, ir.For):
            self._vars.add(stmt.var.uid)
        if isinstance(stmt, ir.Store):
            self._mark(stmt.buffer)
        for buffer in _written(stmt):
            self._mark(buffer)

    def _mark(self, buffer: ir.Buffer) -> None:
        if buffer.scope != "global":
            self._buffers.add(root_of(buffer).uid)


def _operands(stmt: ir.Stmt) -> Iterator[ir.Buffer]:
    """Buffers of a tile operation."""
    if isinstance(stmt, ir.TileOp):
        for operand in stmt.operands:
            buffer = operand_buffer(operand)
            if buffer is not None:
                yield buffer


#: Position of the destination where it is not the first operand.
_DESTINATION = {
    "copy": 1,
    "reduce_sum": 1,
    "reduce_max": 1,
    "reduce_min": 1,
    "gemm_v0": 2,
    "mma": 2,
}
#: Operations that change their sources as well.
_DESTRUCTIVE = frozenset({"sort", "topk", "gather_mask"})


def _written(stmt: ir.Stmt) -> Iterator[ir.Buffer]:
    """Buffers that a tile operation may change."""
    if isinstance(stmt, ir.TileOp) and stmt.op not in _DESTRUCTIVE:
        buffer = operand_buffer(stmt.operands[_DESTINATION.get(stmt.op, 0)])
        if buffer is not None:
            yield buffer
        return
    yield from _operands(stmt)
