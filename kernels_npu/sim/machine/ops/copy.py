"""`T.copy` and `T.tile.atomic_add`: the data moves between memories.

The extents rule: whole buffers move whole; otherwise each side keeps the extents it names, and a side
given by one element takes the other side's. At most two dimensions extend. Global memory clips.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kernels_npu.errors import KernelSourceError
from kernels_npu.sim import ir
from kernels_npu.sim.machine import cost
from kernels_npu.sim.machine.half import to_half
from kernels_npu.sim.machine.instruction import AnyArray, Instruction, LoweringContext, lowers
from kernels_npu.sim.machine.operands import (
    Rect,
    View,
    linear,
    mins_extents,
    shape_of,
    static_int,
    strides_of,
)
from kernels_npu.sim.machine.ops.convert import conversion_pair, converter
from kernels_npu.sim.machine.ops.elementwise import all_sources

_ONE = ir.Const(1, "int32")
_ZERO = ir.Const(0, "int32")


@dataclass(frozen=True, eq=False)
class _Side:
    buffer: ir.Buffer
    mins: tuple[ir.Expr, ...]
    extents: tuple[ir.Expr, ...]


def _is_one(extent: ir.Expr) -> bool:
    return isinstance(extent, ir.Const) and extent.value == 1


def _larger(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    if isinstance(a, ir.Const) and isinstance(b, ir.Const):
        return a if a.value >= b.value else b
    return a if _is_one(b) else b if _is_one(a) else ir.binary("max", a, b)


def _sides(stmt: ir.TileOp, src: ir.Operand, dst: ir.Operand) -> tuple[_Side, _Side]:
    """Both operands with their extents settled."""
    parts = [mins_extents(operand, stmt.loc) for operand in (src, dst)]
    rank = max(len(extents or ()) for _, _, extents in parts)
    if rank == 0:
        raise KernelSourceError(
            "AI-SRC-056",
            "both sides of the copy are single elements",
            where=stmt.loc,
            rule="the amount to move is taken from a buffer or a slice",
            fix="name a buffer or slice with the extent to move on one side",
        )
    padded = [list(extents or ()) + [_ONE] * (rank - len(extents or ())) for _, _, extents in parts]
    merged = [_larger(a, b) for a, b in zip(*padded)]
    sides = []
    for buffer, mins, extents in parts:
        if extents is None:
            tail = merged[-len(buffer.shape) :]
            extents = tuple([_ONE] * (len(buffer.shape) - len(tail)) + tail)
        sides.append(_Side(buffer, mins, extents))
    return sides[0], sides[1]


def _rect(side: _Side) -> Rect:
    """The rectangle of a global tensor: its last dimension and the last other one that extends."""
    last = len(side.extents) - 1
    extending = [i for i in range(last) if not _is_one(side.extents[i])]
    row_dim = extending[-1] if extending else (last - 1 if last > 0 else None)
    rows = _ONE if row_dim is None else side.extents[row_dim]
    return Rect(side.buffer, side.mins, row_dim, rows, side.extents[last])


def _tile(side: _Side, stmt: ir.TileOp) -> View:
    """The rows and columns that the on-chip side names, at the buffer's pitch."""
    shape = shape_of(side.buffer, stmt.loc)
    what = f"the extent of a slice of {side.buffer.name}"
    cols = static_int(side.extents[-1], stmt.loc, what)
    rows, pitch = 1, shape[-1]
    if len(shape) > 1:
        rows = min(shape[-2], static_int(side.extents[-2], stmt.loc, what))
        extending = [i for i in range(len(shape) - 1) if not _is_one(side.extents[i])]
        if extending and extending[-1] != len(shape) - 2:
            rows = static_int(side.extents[extending[-1]], stmt.loc, what)
            pitch = strides_of(shape)[extending[-1]]
    return View(side.buffer, linear(shape, side.mins), rows, cols, pitch, flat=False)


def _load(pad: float, fills: bool) -> Callable[[AnyArray, AnyArray], None]:
    def load(source: AnyArray, tile: AnyArray) -> None:
        if source.shape == tile.shape:
            np.copyto(tile, source, casting="unsafe")
            return
        if fills:
            tile[...] = pad
        rows, cols = source.shape
        if rows == 1 and cols > tile.shape[1]:
            tile.reshape(-1)[:cols] = source[0]
        else:
            tile[: min(rows, tile.shape[0]), : min(cols, tile.shape[1])] = source[
                : tile.shape[0], : tile.shape[1]
            ]

    return load


def _store(accumulate: bool) -> Callable[[AnyArray, AnyArray], None]:
    def store(tile: AnyArray, destination: AnyArray) -> None:
        rows, cols = destination.shape
        if (rows, cols) != tile.shape:
            run = rows == 1 and cols > tile.shape[1]
            tile = tile.reshape(1, -1)[:, :cols] if run else tile[:rows, :cols]
        if accumulate:
            np.add(destination, tile, out=destination)
        elif tile.dtype == np.float32 and destination.dtype == np.float16:
            to_half(tile, destination)
        else:
            np.copyto(destination, tile, casting="unsafe")

    return store


def _load_l1(source: AnyArray, tile: AnyArray, whole: AnyArray, at_base: bool) -> None:
    rows, cols = source.shape
    if at_base and source.shape != whole.shape:
        whole[...] = 0
    np.copyto(tile[:rows, :cols], source, casting="unsafe")


def _check_narrow_rows(stmt: ir.TileOp, tile: View, context: LoweringContext) -> None:
    """On AscendC the UB row pitch is the slice's width rounded up to 32 bytes."""
    device_pitch = -(-tile.cols * tile.itemsize // 32) * 32
    if context.target == "ascendc" and tile.rows > 1 and device_pitch != tile.pitch * tile.itemsize:
        context.note(
            "AI-BOUND-003",
            "error",
            f"copy places rows of {tile.buffer.name} {device_pitch} bytes apart on target ascendc, "
            f"the buffer's rows are {tile.pitch * tile.itemsize} bytes; make rows whole multiples "
            "of 32 bytes and copy full rows",
            stmt,
        )


def _check_dtypes(
    stmt: ir.TileOp, src: ir.Buffer, dst: ir.Buffer, context: LoweringContext
) -> None:
    if src.dtype != dst.dtype:
        context.note(
            "AI-TYPE-007",
            "error" if context.target == "ascendc" else "warning",
            f"copy from {src.name} ({src.dtype}) to {dst.name} ({dst.dtype}) between global memory "
            "and on-chip memory does not convert; copy into a buffer of the same dtype, then cast",
            stmt,
        )


def _gm_to_ub(stmt: ir.TileOp, src: _Side, dst: _Side, context: LoweringContext) -> Instruction:
    tile, rect = _tile(dst, stmt), _rect(src)
    _check_narrow_rows(stmt, tile, context)
    _check_dtypes(stmt, src.buffer, dst.buffer, context)
    pad = stmt.attrs.get("pad_value")
    value = pad.value if isinstance(pad, ir.Const) else pad
    fills = tile.itemsize in (2, 4)
    return Instruction(
        op=stmt.op,
        pipe="MTE2",
        kernel=_load(float(value or 0.0), fills),  # type: ignore[arg-type]
        args=(rect, tile),
        reads=(rect,),
        writes=(tile,),
        cycles=cost.move("MTE2", tile.count * tile.itemsize),
        gm_path="GM->UB",
    )


def _ub_to_gm(
    stmt: ir.TileOp, src: _Side, dst: _Side, context: LoweringContext, accumulate: bool = False
) -> Instruction:
    tile, rect = _tile(src, stmt), _rect(dst)
    _check_narrow_rows(stmt, tile, context)
    _check_dtypes(stmt, src.buffer, dst.buffer, context)
    return Instruction(
        op=stmt.op,
        pipe="MTE3",
        kernel=_store(accumulate),
        args=(tile, rect),
        reads=(tile,),
        writes=(rect,),
        cycles=cost.move("MTE3", tile.count * tile.itemsize),
        gm_path="UB->GM",
        atomic=accumulate,
    )


def _gm_to_l1(stmt: ir.TileOp, src: _Side, dst: _Side, context: LoweringContext) -> Instruction:
    tile, rect = _tile(dst, stmt), _rect(src)
    shape = shape_of(dst.buffer, stmt.loc)
    base = linear(shape[:-2] + (1, 1), dst.mins[:-2] + (_ZERO, _ZERO)) if len(shape) > 2 else _ZERO
    start = base if isinstance(base, ir.Const) else base * (shape[-2] * shape[-1])
    rows = shape[-2] if len(shape) > 1 else 1
    whole = View(dst.buffer, start, rows, shape[-1], shape[-1], flat=False)
    at_base = ir.binary("eq", tile.offset, 0)
    # The zero fill covers the whole tile, so the whole tile is written when the copy starts at it.
    covers = isinstance(at_base, ir.Const) and bool(at_base.value)
    return Instruction(
        op=stmt.op,
        pipe="MTE2",
        kernel=_load_l1,
        args=(rect, tile, whole, at_base),
        reads=(rect,),
        writes=(whole,) if covers else (tile,),
        cycles=cost.move("MTE2", tile.count * tile.itemsize),
        gm_path="GM->L1",
    )


def _l1_to_l0(stmt: ir.TileOp, src: _Side, dst: _Side, context: LoweringContext) -> Instruction:
    tile = shape_of(dst.buffer, stmt.loc)  # its last two dimensions; leading ones are slots
    target = View(dst.buffer, linear(tile, dst.mins), tile[-2], tile[-1], tile[-1], flat=False)
    transpose = bool(stmt.attrs.get("transpose", False))
    shape = shape_of(src.buffer, stmt.loc)
    rows, cols = (target.cols, target.rows) if transpose else (target.rows, target.cols)
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


def _whole(buffer: ir.Buffer) -> tuple[ir.Expr, ...]:
    return tuple(ir.as_expr(d) for d in buffer.shape)


def _l0c_to_gm(
    stmt: ir.TileOp, src: _Side, dst: _Side, context: LoweringContext, accumulate: bool = False
) -> Instruction:
    shape = shape_of(src.buffer, stmt.loc)
    tile = View(src.buffer, linear(shape, src.mins), shape[-2], shape[-1], shape[-1], flat=False)
    rect = _rect(dst)
    relu = bool(stmt.attrs.get("enable_relu", False))
    store = _store(accumulate)
    return Instruction(
        op=stmt.op,
        pipe="FIX",
        kernel=(lambda a, out: store(np.maximum(a, 0), out)) if relu else store,
        args=(tile, rect),
        reads=(tile,),
        writes=(rect,),
        cycles=cost.move("FIX", tile.count * tile.itemsize),
        gm_path="L0C->GM",
        atomic=accumulate,
    )


def _ub_to_ub(stmt: ir.TileOp, src: _Side, dst: _Side, context: LoweringContext) -> Instruction:
    target, source = _tile(dst, stmt), _tile(src, stmt)
    if target.contiguous and source.contiguous:
        count = min(_product(dst, stmt), _product(src, stmt))
        target = View(target.buffer, target.offset, 1, count, count, flat=True)
        source = View(source.buffer, source.offset, 1, count, count, flat=True)
    elif (target.rows, target.cols) != (source.rows, source.cols):
        raise KernelSourceError(
            "AI-SRC-057",
            f"copy of {source.rows}x{source.cols} from {source.buffer.name} into "
            f"{target.rows}x{target.cols} of {target.buffer.name}",
            where=stmt.loc,
            rule="both sides of a UB to UB copy move the same rows and columns",
            fix="slice both sides alike",
        )
    if source.buffer.dtype == target.buffer.dtype:
        if target.cols * target.itemsize % 32:
            context.note(
                "AI-BOUND-009",
                "warning",
                f"copy of {target.cols * target.itemsize} bytes per row within UB "
                f"({source.buffer.name} to {target.buffer.name}); it moves whole 32-byte units and may "
                "leave the rest behind",
                stmt,
            )
        kernel: Callable[..., None] = lambda a, out: np.copyto(out, a)  # noqa: E731
    else:
        conversion_pair(stmt, target, source, context)
        kernel = converter(target.buffer.dtype, source.buffer.dtype, "CAST_RINT")
    return Instruction(
        op=stmt.op,
        pipe="V",
        kernel=kernel,
        args=(source, target),
        reads=(source,),
        writes=(target,),
        cycles=cost.vector(target.count * max(target.itemsize, source.itemsize)),
        taint=all_sources,
    )


def _product(side: _Side, stmt: ir.TileOp) -> int:
    total = 1
    for extent in side.extents:
        total *= static_int(extent, stmt.loc, f"the extent of a slice of {side.buffer.name}")
    return total


_PATHS = {
    ("global", "ub"): _gm_to_ub,
    ("ub", "global"): _ub_to_gm,
    ("global", "l1"): _gm_to_l1,
    ("l1", "l0a"): _l1_to_l0,
    ("l1", "l0b"): _l1_to_l0,
    ("l0c", "global"): _l0c_to_gm,
    ("ub", "ub"): _ub_to_ub,
}


@lowers("copy")
def lower_copy(stmt: ir.TileOp, context: LoweringContext) -> Instruction:
    """`copy(src, dst)`: the path follows from the memories of both sides."""
    src, dst = _sides(stmt, *stmt.operands[:2])
    path = _PATHS.get((src.buffer.scope, dst.buffer.scope))
    if path is None:
        raise KernelSourceError(
            "AI-SRC-058",
            f"no data path from {src.buffer.scope} ({src.buffer.name}) "
            f"to {dst.buffer.scope} ({dst.buffer.name})",
            where=stmt.loc,
            rule="paths: GM<->UB, GM->L1, L1->L0A, L1->L0B, L0C->GM, UB->UB",
            fix="move the data over an intermediate memory of this list",
        )
    return path(stmt, src, dst, context)


@lowers("atomic_add")
def lower_atomic_add(stmt: ir.TileOp, context: LoweringContext) -> Instruction:
    """`atomic_add(dst, src)`: adds a UB or L0C tile to global memory."""
    src, dst = _sides(stmt, stmt.operands[1], stmt.operands[0])
    path = _l0c_to_gm if src.buffer.scope == "l0c" else _ub_to_gm
    return path(stmt, src, dst, context, accumulate=True)
