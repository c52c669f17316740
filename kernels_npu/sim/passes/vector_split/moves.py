"""Copies of split tiles: which rows of the tensor belong to a vector core."""

from __future__ import annotations

from kernels_npu.sim import ir
from kernels_npu.sim.passes.rewriting import operand_buffer, static_int
from kernels_npu.sim.passes.vector_split.analysis import CORES


def shifted(side: ir.Operand, rank: int, first: ir.Expr) -> ir.Operand:
    """The part of `side`, all of whose rows move, from row `first` on: half of the rows.

    `rank` is that of the UB tile on the other side.
    """
    buffer = operand_buffer(side)
    assert buffer is not None
    axis = row_axis(side, rank)
    if isinstance(side, ir.Load):
        moved = list(side.indices)
        moved[axis] = moved[axis] + first
        return ir.Load(buffer, tuple(moved), side.dtype)
    zero = ir.as_expr(0)
    mins = list(side.mins) if isinstance(side, ir.Region) else [zero] * len(buffer.shape)
    shape = side.extents if isinstance(side, ir.Region) else map(ir.as_expr, buffer.shape)
    extents = list(shape)
    extent = static_int(extents[axis])
    mins[axis] = mins[axis] + first
    if extent is None:
        extents[axis] = ir.binary("floordiv", extents[axis], CORES)
    elif extent > 1:
        extents[axis] = ir.as_expr(extent // CORES)
    return ir.Region(buffer, tuple(mins), tuple(extents))


def row_axis(side: ir.Operand, rank: int) -> int:
    """The axis of a tensor along which the first dimension of a tile with `rank` axes lies.

    A slice moves its last two axes longer than one; an element counts axes from the end.
    """
    buffer = operand_buffer(side)
    assert buffer is not None
    last = len(buffer.shape) - 1
    if isinstance(side, ir.Region) and rank == 2:
        longer = [i for i, extent in enumerate(side.extents[:-1]) if static_int(extent) != 1]
        return longer[-1] if longer else last - 1
    return last + 1 - rank
