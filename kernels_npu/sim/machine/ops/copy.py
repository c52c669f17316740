"""`T.copy` and `T.tile.atomic_add`: moves between global and on-chip memory, and their paths."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kernels_npu.errors import KernelSourceError
from kernels_npu.sim import ir
from kernels_npu.sim.dtypes import numpy_dtype
from kernels_npu.sim.machine import cost
from kernels_npu.sim.machine.half import to_half
from kernels_npu.sim.machine.instruction import (
    DEQ_SCALE,
    AnyArray,
    Instruction,
    LoweringContext,
    lowers,
)
from kernels_npu.sim.machine.operands import View, linear, shape_of
from kernels_npu.sim.machine.ops.on_chip_moves import l1_to_l0, ub_to_ub
from kernels_npu.sim.machine.ops.rectangles import (
    Side,
    check_dtypes,
    check_narrow_rows,
    moving_rows,
    rect_of,
    sides_of,
    tile_of,
)
from kernels_npu.sim.passes.pipelining import RUN_TIME_ADDRESS
from kernels_npu.sim.scalar_ops import is_float

_ZERO = ir.Const(0, "int32")

# --------------------------------------------------------------------------- GM -> UB


def _fill(pad: float, tile: AnyArray) -> None:
    tile[...] = pad


def _place(source: AnyArray, tile: AnyArray) -> None:
    """`source` into the corner of `tile`; one row that is longer than the tile's fills it flat."""
    rows, cols = source.shape
    if rows == 1 and cols > tile.shape[1]:
        flat = tile.reshape(-1)
        flat[:cols] = source[0, : flat.size]
        return
    rows, cols = min(rows, tile.shape[0]), min(cols, tile.shape[1])
    np.copyto(tile[:rows, :cols], source[:rows, :cols], casting="unsafe")


def _load(source: AnyArray, tile: AnyArray) -> None:
    if source.shape == tile.shape:
        np.copyto(tile, source, casting="unsafe")
    else:
        _place(source, tile)


def _fill_and_load(pad: float, source: AnyArray, tile: AnyArray) -> None:
    if source.shape != tile.shape:
        tile[...] = pad
    _load(source, tile)


def _load_keeping(pad: float, source: AnyArray, tile: AnyArray) -> None:
    """Dtypes without a fill keep what a clipped move leaves out, up to the last 32-byte unit."""
    _load(source, tile)
    rows, cols = source.shape
    unit = 32 // tile.itemsize
    if rows and cols % unit and cols < tile.shape[1]:
        tile[:rows, cols : -(-cols // unit) * unit] = pad


def _pad_value(stmt: ir.TileOp, buffer: ir.Buffer) -> ir.Expr:
    """The pad value in the buffer's dtype; 0 by default."""
    pad = stmt.attrs.get("pad_value")
    value = ir.as_expr(0 if pad is None else pad)  # type: ignore[arg-type]
    if not isinstance(value, ir.Const):
        return value if value.dtype == buffer.dtype else ir.Cast(value, buffer.dtype)
    if is_float(buffer.dtype):
        return ir.Const(float(value.value), buffer.dtype)
    limits = np.iinfo(numpy_dtype(buffer.dtype)) if buffer.dtype != "bool" else None
    low, high = (limits.min, limits.max) if limits else (0, 1)
    number = 0.0 if value.value != value.value else value.value
    return ir.Const(int(min(max(number, low), high)), buffer.dtype)


def _gm_to_ub(stmt: ir.TileOp, src: Side, dst: Side, context: LoweringContext) -> Instruction:
    """The device fills a tile that the border clips with the pad value, then moves the rest.

    On AscendC the fill is a vector instruction, with the fences that it needs on both sides.
    """
    tile, rect = tile_of(dst, stmt, context), rect_of(src, stmt, context)
    if tile.open:  # the fill with the pad value takes a number of rows from the generated code
        dst.sizes(stmt)
    check_narrow_rows(stmt, tile, rect, context)
    check_dtypes(stmt, src.buffer, dst.buffer, context)
    pad = _pad_value(stmt, dst.buffer)
    fills = tile.itemsize in (2, 4)
    by_vector = fills and context.target == "ascendc"
    kernel: Callable[..., None] = _fill_and_load if fills else _load_keeping
    prologue = Instruction(
        op=stmt.op,
        pipe="V",
        kernel=_fill,
        args=(pad, tile),
        writes=(tile,),
        cycles=cost.vector(tile.count * tile.itemsize),
        fences_before=(("MTE2", "V"), ("MTE3", "V")),
        fences_after=(("V", "MTE2"),),
        events=(("MTE2", "V", 0), ("MTE3", "V", 0), ("V", "MTE2", 0)),
    )
    return Instruction(
        op=stmt.op,
        pipe="MTE2",
        kernel=_load if by_vector else kernel,
        args=(rect, tile) if by_vector else (pad, rect, tile),
        reads=(rect,),
        writes=(tile,),
        cycles=cost.move("MTE2", tile.count * tile.itemsize),
        gm_path="GM->UB",
        clips=not fills,
        prologue=prologue if by_vector else None,
    )


# --------------------------------------------------------------------------- GM -> L1


def _load_l1(source: AnyArray, tile: AnyArray, whole: AnyArray, clears: bool) -> None:
    if clears and source.shape != whole.shape:
        whole[...] = 0
    _load(source, tile)


def _starts_allocation(buffer: ir.Buffer) -> bool:
    while buffer.alias_of is not None and buffer.alias_offset == 0:
        buffer = buffer.alias_of
    return buffer.alias_offset == 0


def _check_l1_tile(stmt: ir.TileOp, tile: View, depth: int, context: LoweringContext) -> None:
    """Target pto lays out what it loads as a matrix of its own, of whole rows of the buffer."""
    if tile.cols < tile.pitch and tile.rows > 1:
        context.note(
            "AI-BOUND-019",
            "error",
            f"{stmt.op} loads {tile.cols} of the {tile.pitch} columns of {tile.buffer.name} in L1; "
            "target pto takes the tile for one of whole rows, load those",
            stmt,
        )
    elif tile.rows < depth and tile.cols * tile.itemsize > 32:
        context.note(
            "AI-BOUND-019",
            "warning",
            f"{stmt.op} loads {tile.rows} of the {depth} rows of {tile.buffer.name} in L1; target "
            f"pto lays them out as a matrix of {tile.rows} rows, which a product with all rows "
            "does not find, load the whole matrix at once",
            stmt,
        )


def _gm_to_l1(stmt: ir.TileOp, src: Side, dst: Side, context: LoweringContext) -> Instruction:
    """What a clipped move leaves of its tile.

    On AscendC one to the buffer's start first clears the whole matrix, others clear nothing; the
    compiler decides by the address it knows: one that depends on a loop is never the start. Target
    pto zeroes what is left of the tile, wherever that is.
    """
    shape = shape_of(dst.buffer, stmt.loc)
    sizes, anywhere = dst.row_bounds(stmt)
    rect = rect_of(src, stmt, context)
    check_dtypes(stmt, src.buffer, dst.buffer, context)
    rows = sizes[-2] if len(sizes) > 1 else 1
    start = linear(shape, dst.mins)
    tile = View(dst.buffer, start, rows, sizes[-1], shape[-1], flat=False, open=anywhere)
    depth = shape[-2] if len(shape) > 1 else 1
    whole = View(dst.buffer, _ZERO, depth, shape[-1], shape[-1], flat=False)
    covers = (
        isinstance(tile.offset, ir.Const)
        and tile.offset.value == 0
        and _starts_allocation(dst.buffer)
        and not stmt.attrs.get(RUN_TIME_ADDRESS)
    )
    if context.target == "pto":
        _check_l1_tile(stmt, tile, depth, context)
        whole, covers = (
            View(dst.buffer, start, rows, sizes[-1], shape[-1], flat=False),
            not anywhere,
        )
    return Instruction(
        op=stmt.op,
        pipe="MTE2",
        kernel=moving_rows(_load_l1, tile, 1, 0),
        args=(rect, tile, whole, covers),
        reads=(rect,),
        # What is cleared is written as a whole, by the data or by the clear.
        writes=(whole,) if covers else (tile,),
        cycles=cost.move("MTE2", tile.count * tile.itemsize),
        gm_path="GM->L1",
        clips=not covers,
        tile=tile,
    )


# --------------------------------------------------------------------------- on chip -> GM


def _store(accumulate: bool) -> Callable[[AnyArray, AnyArray], None]:
    def store(tile: AnyArray, destination: AnyArray) -> None:
        rows, cols = destination.shape
        if (rows, cols) != tile.shape:
            run = rows == 1 and cols > tile.shape[1]
            tile = tile.reshape(1, -1)[:, :cols] if run else tile[:rows, :cols]
            destination = destination[: tile.shape[0], : tile.shape[1]]
        if accumulate:
            np.add(destination, tile, out=destination, casting="unsafe")
        elif tile.dtype == np.float32 and destination.dtype == np.float16:
            to_half(tile, destination)
        else:
            np.copyto(destination, tile, casting="unsafe")

    return store


def _ub_to_gm(
    stmt: ir.TileOp, src: Side, dst: Side, context: LoweringContext, accumulate: bool = False
) -> Instruction:
    tile, rect = tile_of(src, stmt, context), rect_of(dst, stmt, context)
    check_narrow_rows(stmt, tile, rect, context)
    check_dtypes(stmt, src.buffer, dst.buffer, context)
    return Instruction(
        op=stmt.op,
        pipe="MTE3",
        kernel=moving_rows(_store(accumulate), tile, 0, 1),
        args=(tile, rect),
        reads=(tile,),
        writes=(rect,),
        cycles=cost.move("MTE3", tile.count * tile.itemsize),
        gm_path="UB->GM",
        atomic=accumulate,
        clips=True,
    )


def _l0c_to_gm(
    stmt: ir.TileOp, src: Side, dst: Side, context: LoweringContext, accumulate: bool = False
) -> Instruction:
    """The fixpipe: converts, from int32 to float16 with `set_deq_scale`'s register, and relu."""
    shape = shape_of(src.buffer, stmt.loc)
    tile = View(src.buffer, linear(shape, src.mins), shape[-2], shape[-1], shape[-1], flat=False)
    rect = rect_of(dst, stmt, context)
    relu = bool(stmt.attrs.get("enable_relu", False))
    scaled = src.buffer.dtype == "int32" and dst.buffer.dtype == "float16"
    store = _store(accumulate)

    def fix(tile: AnyArray, destination: AnyArray, scale: float) -> None:
        if scaled:
            tile = tile.astype(np.float32) * np.float32(scale)
        store(np.maximum(tile, 0) if relu else tile, destination)

    return Instruction(
        op=stmt.op,
        pipe="FIX",
        kernel=fix,
        args=(tile, rect, DEQ_SCALE),
        reads=(tile,),
        writes=(rect,),
        cycles=cost.move("FIX", tile.count * tile.itemsize),
        gm_path="L0C->GM",
        atomic=accumulate,
        clips=True,
    )


# --------------------------------------------------------------------------- the operations

_PATHS = {
    ("global", "ub"): _gm_to_ub,
    ("ub", "global"): _ub_to_gm,
    ("global", "l1"): _gm_to_l1,
    ("l1", "l0a"): l1_to_l0,
    ("l1", "l0b"): l1_to_l0,
    ("l0c", "global"): _l0c_to_gm,
    ("ub", "ub"): ub_to_ub,
}


@lowers("copy")
def lower_copy(stmt: ir.TileOp, context: LoweringContext) -> Instruction:
    """`copy(src, dst)`: the path follows from the memories of both sides."""
    src, dst = sides_of(stmt, *stmt.operands[:2])
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
    src, dst = sides_of(stmt, stmt.operands[1], stmt.operands[0])
    if src.buffer.dtype != dst.buffer.dtype:
        raise KernelSourceError(
            "AI-TYPE-002",
            f"atomic_add: {dst.buffer.name} is {dst.buffer.dtype}, {src.buffer.name} is "
            f"{src.buffer.dtype}",
            where=stmt.loc,
            rule="atomic_add requires equal dtypes of tile and tensor",
            fix="cast the tile first",
        )
    path = _l0c_to_gm if src.buffer.scope == "l0c" else _ub_to_gm
    return path(stmt, src, dst, context, accumulate=True)
