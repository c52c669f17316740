"""Broadcast and transpose."""

from __future__ import annotations

import numpy as np

from kernels_npu.errors import KernelSourceError
from kernels_npu.sim import ir
from kernels_npu.sim.machine import cost
from kernels_npu.sim.machine.instruction import AnyArray, Instruction, LoweringContext, lowers
from kernels_npu.sim.machine.operands import View, flat_view, mins_extents, static_int, tile_view


def _extents(operand: ir.Operand, stmt: ir.TileOp) -> tuple[int, ...]:
    _, _, extents = mins_extents(operand, stmt.loc)
    sizes = [static_int(e, stmt.loc, "an extent of broadcast") for e in extents or ()]
    return tuple(sizes[-2:]) if len(sizes) > 1 else tuple(sizes) or (1,)


def _block(operand: ir.Operand, rows: int, cols: int, stmt: ir.TileOp) -> View:
    run = flat_view(operand, stmt.loc)
    return View(run.buffer, run.offset, rows, cols, cols, flat=False)


@lowers("broadcast")
def lower_broadcast(stmt: ir.TileOp, context: LoweringContext) -> Instruction:
    """`broadcast(dst, src, axis)`: replicate a row, a column or one element over a compact tile."""
    dst_shape, src_shape = (_extents(o, stmt) for o in stmt.operands[:2])
    rows, cols = dst_shape if len(dst_shape) == 2 else (1, dst_shape[0])
    if len(src_shape) == 2:
        source_rows, source_cols = src_shape
    else:
        axis = stmt.attrs.get("axis")
        along_rows = src_shape[0] == cols if axis is None else axis == 0
        source_rows, source_cols = (1, src_shape[0]) if along_rows else (src_shape[0], 1)
    if source_rows not in (1, rows) or source_cols not in (1, cols):
        raise KernelSourceError(
            "AI-SRC-055",
            f"broadcast of {list(src_shape)} into {list(dst_shape)}",
            where=stmt.loc,
            rule="each dimension of the source is 1 or equal to the destination's",
            fix="check the shapes, or give axis=0 (rows repeat) or axis=1 (columns repeat)",
        )
    dst = _block(stmt.operands[0], rows, cols, stmt)
    src = _block(stmt.operands[1], source_rows, source_cols, stmt)
    return Instruction(
        op=stmt.op,
        pipe="V",
        kernel=lambda a, out: np.copyto(out, a),
        args=(src, dst),
        reads=(src,),
        writes=(dst,),
        cycles=cost.vector(dst.count * dst.itemsize, 2),
        taint=_broadcast_taint,
    )


def _broadcast_taint(sources: list[AnyArray], shape: tuple[int, ...]) -> AnyArray:
    return np.broadcast_to(sources[0], shape)


@lowers("transpose")
def lower_transpose(stmt: ir.TileOp, context: LoweringContext) -> Instruction:
    """`transpose(dst, src)` of 2-D tiles."""
    dst, src = (tile_view(o, stmt.loc) for o in stmt.operands[:2])
    if (dst.rows, dst.cols) != (src.cols, src.rows):
        raise KernelSourceError(
            "AI-SRC-055",
            f"transpose of {src.rows}x{src.cols} ({src.buffer.name}) into {dst.rows}x{dst.cols} "
            f"({dst.buffer.name})",
            where=stmt.loc,
            rule="the destination has the source's columns as rows",
            fix="swap the extents of the destination",
        )
    if context.target == "ascendc" and (src.rows % 16 or src.cols % 16):
        context.note(
            "AI-BOUND-015",
            "error",
            f"transpose of {src.rows}x{src.cols} ({src.buffer.name}) works on whole 16x16 tiles "
            "and leaves the rest out; pad both extents to multiples of 16",
            stmt,
        )
    return Instruction(
        op=stmt.op,
        pipe="V",
        kernel=lambda a, out: np.copyto(out, a.T),
        args=(src, dst),
        reads=(src,),
        writes=(dst,),
        cycles=cost.vector(dst.count * dst.itemsize, 4),
        taint=lambda sources, shape: sources[0].T,
    )
