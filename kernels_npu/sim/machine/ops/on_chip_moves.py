"""`T.copy` within a core: L1 to L0A and L0B, and UB to UB with conversion."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kernels_npu.errors import KernelSourceError
from kernels_npu.sim import ir
from kernels_npu.sim.machine import cost
from kernels_npu.sim.machine.instruction import DEQ_SCALE, Instruction, LoweringContext
from kernels_npu.sim.machine.operands import View, linear, shape_of
from kernels_npu.sim.machine.ops.convert import conversion_pair, converter, is_scaled, scaling
from kernels_npu.sim.machine.ops.elementwise import all_sources
from kernels_npu.sim.machine.ops.rectangles import Side


def l1_to_l0(stmt: ir.TileOp, src: Side, dst: Side, context: LoweringContext) -> Instruction:
    """Fills the whole L0 matrix from where the L1 side starts, transposed if asked."""
    tile = shape_of(dst.buffer, stmt.loc)  # its last two dimensions; leading ones are slots
    target = View(dst.buffer, linear(tile, dst.mins), tile[-2], tile[-1], tile[-1], flat=False)
    transpose = bool(stmt.attrs.get("transpose", False))
    shape = shape_of(src.buffer, stmt.loc)
    rows, cols = (target.cols, target.rows) if transpose else (target.rows, target.cols)
    if rows > shape[-2] or cols > shape[-1]:
        raise KernelSourceError(
            "AI-SRC-057",
            f"copy of {rows}x{cols} from {src.buffer.name}{list(shape)} into "
            f"{dst.buffer.name}{list(tile)}",
            where=stmt.loc,
            rule="the whole L0 matrix is filled from the L1 matrix",
            fix="allocate the L0 buffer no larger than the L1 tile",
        )
    source = View(src.buffer, linear(shape, src.mins), rows, cols, shape[-1], flat=False)
    return Instruction(
        op=stmt.op,
        pipe="MTE1",
        kernel=(lambda a, out: np.copyto(out, a.T))
        if transpose
        else (lambda a, out: np.copyto(out, a)),
        args=(source, target),
        reads=(source,),
        writes=(target,),
        cycles=cost.move("MTE1", target.count * target.itemsize),
        taint=(lambda s, shape: s[0].T) if transpose else (lambda s, shape: s[0]),
    )


def _product(sizes: tuple[int, ...]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


def _ub_views(stmt: ir.TileOp, src: Side, dst: Side) -> tuple[View, View]:
    """Source and target: flat runs when both sides are as wide as their buffers, else rows."""
    (sizes, shape), (target_sizes, target_shape) = (
        (side.sizes(stmt), shape_of(side.buffer, stmt.loc)) for side in (src, dst)
    )
    offset, target_offset = linear(shape, src.mins), linear(target_shape, dst.mins)
    full_target = target_sizes[-1] == target_shape[-1]
    # One row moves as a run too, into whatever lies contiguously from the target's start on.
    one_row = _product(sizes[:-1]) == 1 and (full_target or _product(target_sizes[:-1]) == 1)
    flat = one_row or (full_target and sizes[-1] == shape[-1])
    if flat:
        moved, named = (1, _product(sizes)), (1, _product(target_sizes))
    else:
        moved = (sizes[-2] if len(sizes) > 1 else 1, sizes[-1])
        named = (target_sizes[-2] if len(target_sizes) > 1 else 1, target_sizes[-1])
    leading = 1 if flat else _product(sizes[:-2]) * _product(target_sizes[:-2])
    if moved != named or leading != 1:
        raise KernelSourceError(
            "AI-SRC-057",
            f"copy of {_text(sizes)} from {src.buffer.name}{list(shape)} into "
            f"{_text(target_sizes)} of {dst.buffer.name}{list(target_shape)}",
            where=stmt.loc,
            rule="within UB, sides as wide as their buffers move as one run of equal length; "
            "otherwise two-dimensional slices of equal rows and columns move row by row",
            fix="slice both sides alike",
        )
    rows, cols = moved
    return (
        View(src.buffer, offset, rows, cols, cols if flat else shape[-1], flat=flat),
        View(dst.buffer, target_offset, rows, cols, cols if flat else target_shape[-1], flat=flat),
    )


def _text(sizes: tuple[int, ...]) -> str:
    return "x".join(map(str, sizes))


def ub_to_ub(stmt: ir.TileOp, src: Side, dst: Side, context: LoweringContext) -> Instruction:
    """A vector instruction: a move of equal dtypes, else a conversion to nearest."""
    source, target = _ub_views(stmt, src, dst)
    scaled = is_scaled(target.buffer.dtype, source.buffer.dtype)
    if source.buffer.dtype == target.buffer.dtype:
        _check_units(stmt, source, target, context)
        kernel: Callable[..., None] = lambda a, out: np.copyto(out, a)  # noqa: E731
    else:
        conversion_pair(stmt, target, source, context)
        kernel = converter(target.buffer.dtype, source.buffer.dtype, "CAST_RINT")
        kernel = scaling(kernel) if scaled else kernel
    for view in (source, target):
        if view.rows > 1 and view.pitch * view.itemsize % 32:
            context.note(
                "AI-BOUND-006",
                "error",
                f"rows of {view.buffer.name} are {view.pitch * view.itemsize} bytes apart; each "
                "row is moved by an instruction of its own, which starts on a 32-byte boundary",
                stmt,
            )
    return Instruction(
        op=stmt.op,
        pipe="V",
        kernel=kernel,
        args=(source, target, DEQ_SCALE) if scaled else (source, target),
        reads=(source,),
        writes=(target,),
        cycles=cost.vector(target.count * max(target.itemsize, source.itemsize)),
        taint=all_sources,
    )


def _check_units(stmt: ir.TileOp, source: View, target: View, context: LoweringContext) -> None:
    if target.cols * target.itemsize % 32:
        context.note(
            "AI-BOUND-009",
            "warning",
            f"copy of {target.cols * target.itemsize} bytes per row within UB "
            f"({source.buffer.name} to {target.buffer.name}); it moves whole 32-byte units and may "
            "leave the rest behind",
            stmt,
        )
