"""Reductions of whole iterations, of 32-byte blocks and of runs (names of the AscendC library)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kernels_npu.errors import UnsupportedError
from kernels_npu.sim import ir
from kernels_npu.sim.machine import cost
from kernels_npu.sim.machine.instruction import (
    AnyArray,
    Instruction,
    LoweringContext,
    MemoryFrom,
    lowers,
)
from kernels_npu.sim.machine.operands import flat_view
from kernels_npu.sim.machine.ops.elementwise import check_dtype, same_dtype
from kernels_npu.sim.machine.ops.repeats import (
    BLOCK_BYTES,
    BLOCKS,
    Offsets,
    lanes,
    setting,
    views_at,
)

#: A reduction of the last axis.
Reduce = Callable[[AnyArray], AnyArray]


def _sum(a: AnyArray) -> AnyArray:
    total: AnyArray = np.add.reduce(a, axis=-1, dtype=np.float32 if a.itemsize == 2 else a.dtype)
    return total


_REDUCE: dict[str, Reduce] = {
    "sum": _sum,
    "max": lambda a: np.maximum.reduce(a, axis=-1),
    "min": lambda a: np.minimum.reduce(a, axis=-1),
}
_POSITION: dict[str, Reduce] = {
    "max": lambda a: np.argmax(a, axis=-1),
    "min": lambda a: np.argmin(a, axis=-1),
}


def written_everywhere(sources: list[AnyArray], shape: tuple[int, ...]) -> AnyArray:
    """The result is written when all of the sources are."""
    return np.full(shape, all(source.all() for source in sources))


def _reduction(
    stmt: ir.TileOp,
    context: LoweringContext,
    source_offsets: Offsets,
    result_offsets: Offsets,
    compute: Callable[[AnyArray], AnyArray],
) -> Instruction:
    """The instruction that stores `compute(src[source_offsets])` at `result_offsets` of dst."""
    dst, src = (flat_view(o, stmt.loc) for o in stmt.operands[:2])
    check_dtype(stmt, src, context)
    same_dtype(stmt, dst, src)
    # Single results are stored element by element, anywhere.
    reads, writes = views_at(src, source_offsets), views_at(dst, result_offsets, part=True)

    def run(memory: AnyArray, out: AnyArray) -> None:
        out[result_offsets] = compute(memory[source_offsets])

    return Instruction(
        op=stmt.op,
        pipe="V",
        kernel=run,
        args=(MemoryFrom(src), MemoryFrom(dst)),
        reads=reads,
        writes=writes,
        cycles=cost.vector(source_offsets.size * src.itemsize, 2),
        arithmetic=cost.on_lanes(src, source_offsets.size),
        taint=written_everywhere,
    )


def _itemsize(stmt: ir.TileOp) -> int:
    return flat_view(stmt.operands[0], stmt.loc).itemsize


# --------------------------------------------------------------------------- one per iteration

#: ReduceOrder -> what is stored per iteration: value, position.
_ORDERS = {
    "ORDER_VALUE_INDEX": ("value", "index"),
    "ORDER_INDEX_VALUE": ("index", "value"),
    "ORDER_ONLY_VALUE": ("value",),
}


def _with_position(kind: str, order: tuple[str, ...]) -> Callable[[AnyArray], AnyArray]:
    def compute(rows: AnyArray) -> AnyArray:
        # A position is stored as the bits of an unsigned integer of the element's size.
        found = _POSITION[kind](rows).astype(f"u{rows.itemsize}").view(rows.dtype)
        columns = {"value": _REDUCE[kind](rows), "index": found}
        return np.stack([columns[name] for name in order], axis=-1)

    return compute


@lowers("wholereducemax", "wholereducemin", "wholereducesum")
def lower_whole_reduce(stmt: ir.TileOp, context: LoweringContext) -> Instruction:
    """One result per iteration over the first `mask` lanes; max and min also give the position."""
    itemsize, repeat, kind = _itemsize(stmt), setting(stmt, "repeattimes"), stmt.op[-3:]
    order = str(stmt.attrs.get("ReduceOrder", "ORDER_ONLY_VALUE"))
    if order not in _ORDERS:
        raise UnsupportedError(
            "AI-SRC-060",
            f"the simulator does not execute {stmt.op} with {order}",
            where=stmt.loc,
            rule="executed orders: " + ", ".join(_ORDERS),
            fix="use ORDER_VALUE_INDEX",
        )
    shown = _ORDERS[order]
    sources = lanes(
        itemsize,
        repeat=repeat,
        lanes=setting(stmt, "mask"),
        block_stride=setting(stmt, "srcblkstride"),
        repeat_stride=setting(stmt, "srcrepstride"),
    )
    width = len(shown)
    starts = np.arange(repeat)[:, None] * setting(stmt, "dstrepstride") * width
    if kind == "sum":
        return _reduction(stmt, context, sources, starts[:, 0], _sum)
    return _reduction(
        stmt, context, sources, starts + np.arange(width), _with_position(kind, shown)
    )


# --------------------------------------------------------------------------- one per block


@lowers("block_reduce_max", "block_reduce_min", "block_reduce_sum")
def lower_block_reduce(stmt: ir.TileOp, context: LoweringContext) -> Instruction:
    """One result per 32-byte block, 8 per iteration; `mask` lanes take part."""
    itemsize, repeat, kind = _itemsize(stmt), setting(stmt, "repeat"), stmt.op[-3:]
    per_block = BLOCK_BYTES // itemsize
    blocks = min(BLOCKS, -(-setting(stmt, "mask") // per_block))
    sources = lanes(
        itemsize,
        repeat=repeat,
        lanes=blocks * per_block,
        block_stride=setting(stmt, "srcBlkStride"),
        repeat_stride=setting(stmt, "srcRepStride"),
    ).reshape(repeat, blocks, per_block)
    _check_mask(stmt, setting(stmt, "mask"), per_block, context)
    starts = np.arange(repeat)[:, None] * setting(stmt, "dstPepStride") * BLOCKS
    return _reduction(stmt, context, sources, starts + np.arange(blocks), _REDUCE[kind])


def _check_mask(stmt: ir.TileOp, mask: int, per_block: int, context: LoweringContext) -> None:
    if mask % per_block:
        context.note(
            "AI-BOUND-034",
            "warning",
            f"{stmt.op} with mask {mask} ends within a 32-byte block of {per_block} elements; "
            "the simulator takes the whole block; use a multiple",
            stmt,
        )


# --------------------------------------------------------------------------- one in all


@lowers("reduce_sum_experiment")
def lower_run_sum(stmt: ir.TileOp, context: LoweringContext) -> Instruction:
    """`reduce_sum_experiment(dst, src, count)`: dst[0] is the sum of the first elements."""
    offsets = np.arange(setting(stmt, "count"))
    return _reduction(stmt, context, offsets[None, :], np.zeros(1, np.int64), _sum)


@lowers("reduce_sum_mask_experiment")
def lower_masked_sum(stmt: ir.TileOp, context: LoweringContext) -> Instruction:
    """dst[0] is the sum of the first `mask` lanes of all iterations."""
    offsets = lanes(
        _itemsize(stmt),
        repeat=setting(stmt, "repeatTime"),
        lanes=setting(stmt, "mask"),
        block_stride=1,
        repeat_stride=setting(stmt, "srcRepStride"),
    )
    return _reduction(stmt, context, offsets.reshape(1, -1), np.zeros(1, np.int64), _sum)


@lowers("sum_experiment")
def lower_row_sums(stmt: ir.TileOp, context: LoweringContext) -> Instruction:
    """`sum_experiment(dst, src, [outer, inner, n])`: dst[i] sums src[i*inner : i*inner + n].

    The library takes scratch from UB that no buffer reserves.
    """
    outer, inner, count = (int(n) for n in stmt.attrs["sumParams"])  # type: ignore[union-attr, arg-type]
    context.note(
        "AI-MEM-025",
        "warning",
        "sum_experiment uses scratch space in UB that the compiler does not reserve and that may "
        "lie in a buffer of the kernel; use T.reduce_sum",
        stmt,
    )
    offsets = np.arange(outer)[:, None] * inner + np.arange(count)
    return _reduction(stmt, context, offsets, np.arange(outer), _sum)
