"""Row and column reductions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kernels_npu.errors import KernelSourceError
from kernels_npu.sim import ir
from kernels_npu.sim.machine import cost
from kernels_npu.sim.machine.half import widen
from kernels_npu.sim.machine.instruction import (
    AnyArray,
    Instruction,
    LoweringContext,
    TaintRule,
    lowers,
)
from kernels_npu.sim.machine.operands import View, flat_view, tile_view
from kernels_npu.sim.machine.ops.elementwise import check_dtype, same_dtype

_UFUNC: dict[str, np.ufunc] = {
    "reduce_sum": np.add,
    "reduce_max": np.maximum,
    "reduce_min": np.minimum,
}


def _reducer(name: str, axis: int, clear: bool) -> Callable[[AnyArray, AnyArray], None]:
    ufunc = _UFUNC[name]

    def reduce_(source: AnyArray, out: AnyArray) -> None:
        if clear and source.dtype == out.dtype and source.dtype.itemsize == 4:
            ufunc.reduce(source, axis=axis, out=out)
            return
        wide = widen(source)
        result = ufunc.reduce(wide, axis=axis).astype(out.dtype)
        # The library reduces into dst, rounded, and then merges the old contents by scalar code.
        out[...] = result if clear else ufunc(out, result)

    return reduce_


@lowers(*_UFUNC)
def lower_reduce(stmt: ir.TileOp, context: LoweringContext) -> Instruction:
    """`reduce_*(src, dst, dim, clear, real_shape)`; results are written flat from dst's start."""
    tile = tile_view(stmt.operands[0], stmt.loc)
    whole_out = flat_view(stmt.operands[1], stmt.loc)
    rank = len(tile.buffer.shape)
    dim = int(stmt.attrs.get("dim", -1))  # type: ignore[arg-type]
    over_columns = dim in (-1, rank - 1)
    rows, cols = tile.rows, tile.cols
    real = stmt.attrs.get("real_shape")
    if isinstance(real, (tuple, list)) and real:
        sizes = [int(s) for s in real]  # type: ignore[call-overload]
        real_rows, real_cols = (1, sizes[0]) if len(sizes) == 1 else (sizes[-2], sizes[-1])
        rows, cols = real_rows or rows, real_cols or cols
    source = View(tile.buffer, tile.offset, rows, cols, tile.pitch, flat=False)
    count = rows if over_columns else cols
    if count > whole_out.count:
        raise KernelSourceError(
            "AI-SRC-054",
            f"{stmt.op} yields {count} values, {whole_out.buffer.name} holds {whole_out.count}",
            where=stmt.loc,
            rule="the result of a reduction has one value per row (dim -1) or per column (dim 0)",
            fix="check dim and the shape of the output",
        )
    out = View(whole_out.buffer, whole_out.offset, 1, count, count, flat=True)
    clear = bool(stmt.attrs.get("clear", True))
    check_dtype(stmt, source, context, float_only=True)
    same_dtype(stmt, out, source)
    _check_pitch(stmt, source, context)
    _check_half_sum(stmt, source, over_columns, clear, context)
    axis = 1 if over_columns else 0
    return Instruction(
        op=stmt.op,
        pipe="V",
        kernel=_reducer(stmt.op, axis, clear),
        args=(source, out),
        reads=(source,) if clear else (source, out),
        writes=(out,),
        cycles=cost.vector(source.count * source.itemsize, 2),
        arithmetic=cost.on_lanes(source),
        taint=_taint(axis),
    )


def _check_half_sum(
    stmt: ir.TileOp, source: View, over_columns: bool, clear: bool, context: LoweringContext
) -> None:
    """AscendC sums half tiles with one instruction per row, which takes 128 elements at most."""
    half = stmt.op == "reduce_sum" and source.buffer.dtype == "float16" and clear
    if context.target != "ascendc" or not half or source.rows == 1:
        return
    if over_columns and source.cols <= 128:
        return
    what = f"rows of {source.cols} elements" if over_columns else "columns"
    context.note(
        "AI-BOUND-014",
        "warning",
        f"reduce_sum over {what} of the half tile {source.buffer.name}: the library sums rows of "
        "up to 128 half elements correctly; cast to float32 first",
        stmt,
    )


def _taint(axis: int) -> TaintRule:
    def taint(sources: list[AnyArray], shape: tuple[int, ...]) -> AnyArray:
        written = sources[0].all(axis=axis).reshape(shape)
        return written & sources[1].reshape(shape) if len(sources) > 1 else written

    return taint


def _check_pitch(stmt: ir.TileOp, source: View, context: LoweringContext) -> None:
    """AscendC takes rows at the logical width rounded up to 32 bytes, not at the buffer's pitch."""
    padded = -(-source.cols * source.itemsize // 32) * 32
    if context.target == "ascendc" and source.rows > 1 and padded != source.pitch * source.itemsize:
        context.note(
            "AI-BOUND-004",
            "error",
            f"{stmt.op} over {source.cols} of {source.pitch} columns of {source.buffer.name}: "
            f"on target ascendc rows are {padded} bytes apart, in the buffer "
            f"{source.pitch * source.itemsize}; allocate the buffer with the padded logical width",
            stmt,
        )
