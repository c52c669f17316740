"""What `T.copy` moves: which rows and columns its two operands name.

The extents rule: whole buffers move whole; otherwise each side keeps the extents it names,
and a side given by one element takes the other side's. At most two dimensions extend.
Global memory clips.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernels_npu.errors import KernelSourceError
from kernels_npu.sim import ir
from kernels_npu.sim.machine.instruction import LoweringContext
from kernels_npu.sim.machine.operands import (
    Rect,
    View,
    linear,
    mins_extents,
    shape_of,
    static_int,
    strides_of,
)

ONE = ir.Const(1, "int32")


@dataclass(frozen=True, eq=False)
class Side:
    """One operand of a copy: first index and extent per dimension."""

    buffer: ir.Buffer
    mins: tuple[ir.Expr, ...]
    extents: tuple[ir.Expr, ...]

    def sizes(self, stmt: ir.TileOp) -> tuple[int, ...]:
        """The extents of an on-chip side, which are constants."""
        what = f"the extent of a slice of {self.buffer.name}"
        return tuple(static_int(e, stmt.loc, what) for e in self.extents)

    def row_bounds(self, stmt: ir.TileOp) -> tuple[tuple[int, ...], bool]:
        """The extents, where one of rows may be a bound, and whether such rows start anywhere.

        A number of rows that is known at run time only ends with the buffer at the latest; the
        columns are a constant of the generated code.
        """
        shape = shape_of(self.buffer, stmt.loc)
        sizes, anywhere = [], False
        for position, (start, extent) in enumerate(zip(self.mins, self.extents)):
            if isinstance(extent, ir.Const) or position == len(shape) - 1:
                what = f"the extent of a slice of {self.buffer.name}"
                sizes.append(static_int(extent, stmt.loc, what))
            elif isinstance(start, ir.Const):
                sizes.append(shape[position] - int(start.value))
            else:
                sizes.append(shape[position])
                anywhere = True
        return tuple(sizes), anywhere


def is_one(extent: ir.Expr) -> bool:
    """Whether an extent is the constant 1."""
    return isinstance(extent, ir.Const) and extent.value == 1


def _larger(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    if isinstance(a, ir.Const) and isinstance(b, ir.Const):
        return a if a.value >= b.value else b
    return a if is_one(b) else b if is_one(a) else ir.binary("max", a, b)


def sides_of(stmt: ir.TileOp, src: ir.Operand, dst: ir.Operand) -> tuple[Side, Side]:
    """Both operands with their extents settled.

    Raises:
        KernelSourceError: AI-SRC-056 when neither side says how much moves.
    """
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
    padded = [list(extents or ()) + [ONE] * (rank - len(extents or ())) for _, _, extents in parts]
    merged = [_larger(a, b) for a, b in zip(*padded)]
    sides = []
    for buffer, mins, extents in parts:
        if extents is None:
            tail = merged[-len(buffer.shape) :]
            extents = tuple([ONE] * (len(buffer.shape) - len(tail)) + tail)
        sides.append(Side(buffer, mins, extents))
    return sides[0], sides[1]


def rect_of(side: Side, stmt: ir.TileOp, context: LoweringContext) -> Rect:
    """The rectangle of a global tensor: its last dimension and the last other one that extends."""
    last = len(side.extents) - 1
    extending = [i for i in range(last) if not is_one(side.extents[i])]
    if len(extending) > 1:
        _note_ignored(side, extending[:-1], stmt, context)
    row_dim = extending[-1] if extending else (last - 1 if last > 0 else None)
    rows = ONE if row_dim is None else side.extents[row_dim]
    return Rect(side.buffer, side.mins, row_dim, rows, side.extents[last])


def tile_of(side: Side, stmt: ir.TileOp, context: LoweringContext) -> View:
    """The rows and columns that the UB side names, at the buffer's pitch."""
    shape = shape_of(side.buffer, stmt.loc)
    sizes, anywhere = side.row_bounds(stmt)
    rows, pitch = 1, shape[-1]
    if len(shape) > 1:
        rows = min(shape[-2], sizes[-2])
        extending = [i for i in range(len(shape) - 1) if sizes[i] != 1]
        if len(extending) > 1:
            _note_ignored(side, extending[:-1], stmt, context)
        if extending and extending[-1] != len(shape) - 2:
            rows = sizes[extending[-1]]
            pitch = strides_of(shape)[extending[-1]]
    start = linear(shape, side.mins)
    return View(side.buffer, start, rows, sizes[-1], pitch, flat=False, open=anywhere)


def _note_ignored(side: Side, dims: list[int], stmt: ir.TileOp, context: LoweringContext) -> None:
    context.note(
        "AI-BOUND-012",
        "error",
        f"{stmt.op} names more than two extending dimensions of {side.buffer.name}; dimension"
        f"{'s' if len(dims) > 1 else ''} {', '.join(map(str, dims))} would be taken at the first "
        "index only, loop over them",
        stmt,
    )


def check_narrow_rows(stmt: ir.TileOp, tile: View, rect: Rect, context: LoweringContext) -> None:
    """On AscendC the UB row pitch is the slice width rounded up to 32 bytes; one row has none."""
    device_pitch = -(-tile.cols * tile.itemsize // 32) * 32
    several = tile.rows > 1 and not is_one(rect.rows)
    if context.target == "ascendc" and several and device_pitch != tile.pitch * tile.itemsize:
        context.note(
            "AI-BOUND-003",
            "error",
            f"{stmt.op} places rows of {tile.buffer.name} {device_pitch} bytes apart on target "
            f"ascendc, the buffer's rows are {tile.pitch * tile.itemsize} bytes; make rows whole "
            "multiples of 32 bytes and copy full rows",
            stmt,
        )


def check_dtypes(stmt: ir.TileOp, src: ir.Buffer, dst: ir.Buffer, context: LoweringContext) -> None:
    """Moves between global memory and UB or L1 do not convert."""
    if src.dtype != dst.dtype:
        context.note(
            "AI-TYPE-007",
            "error" if context.target == "ascendc" else "warning",
            f"copy from {src.name} ({src.dtype}) to {dst.name} ({dst.dtype}) between global memory "
            "and on-chip memory does not convert; copy into a buffer of the same dtype, then cast",
            stmt,
        )


def moving_rows(
    kernel: Callable[..., None], tile: View, tile_at: int, rect_at: int
) -> Callable[..., None]:
    """`kernel` with an open tile cut to the rows of the rectangle, by their argument positions."""
    if not tile.open:
        return kernel

    def cut(*args: Any) -> None:
        given = list(args)
        rows = given[rect_at].shape[0]
        memory = given[tile_at][: max(0, (rows - 1) * tile.pitch + tile.cols)]
        strides = (tile.pitch * memory.itemsize, memory.itemsize)
        given[tile_at] = np.lib.stride_tricks.as_strided(memory, (rows, tile.cols), strides)
        kernel(*given)

    return cut
