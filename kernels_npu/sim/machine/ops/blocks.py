"""Operations on 32-byte blocks: brcb, fill by mask, gathers of blocks, interpolation."""

from __future__ import annotations

import numpy as np

from kernels_npu.sim import ir
from kernels_npu.sim.machine import cost
from kernels_npu.sim.machine.instruction import (
    AnyArray,
    Instruction,
    LoweringContext,
    MemoryFrom,
    lowers,
)
from kernels_npu.sim.machine.operands import View, flat_view
from kernels_npu.sim.machine.ops.elementwise import clamped, counted, same_dtype, typed_scalar
from kernels_npu.sim.machine.ops.repeat_reduce import written_everywhere
from kernels_npu.sim.machine.ops.repeats import BLOCK_BYTES, BLOCKS, lanes, setting, views_at


@lowers("brcb_experiment")
def lower_brcb(stmt: ir.TileOp, context: LoweringContext) -> Instruction:
    """`brcb_experiment(dst, src, repeat, blkStride, repStride)`: element r*8+b fills a block.

    Target pto ignores the strides: element i fills row i of dst.
    """
    dst, src = (flat_view(o, stmt.loc) for o in stmt.operands[:2])
    same_dtype(stmt, dst, src)
    repeat = setting(stmt, "repeat_times")
    per_block = BLOCK_BYTES // dst.itemsize
    source = counted(stmt, src, repeat * BLOCKS, context)
    if context.target == "pto":
        offsets = np.arange(dst.count).reshape(src.count, -1)
        source = clamped(src, src.count)
    else:
        offsets = lanes(
            dst.itemsize,
            repeat=repeat,
            lanes=BLOCKS * per_block,
            block_stride=setting(stmt, "dst_blk_stride"),
            repeat_stride=setting(stmt, "dst_repeat_stride"),
        ).reshape(-1, per_block)

    def run(values: AnyArray, out: AnyArray) -> None:
        out[offsets[: values.size]] = values[:, None]

    return Instruction(
        op=stmt.op,
        pipe="V",
        kernel=run,
        args=(source, MemoryFrom(dst)),
        reads=(source,),
        writes=views_at(dst, offsets),
        cycles=cost.vector(offsets.size * dst.itemsize),
        taint=written_everywhere,
    )


@lowers("fill_experiment")
def lower_masked_fill(stmt: ir.TileOp, context: LoweringContext) -> Instruction:
    """`fill_experiment(dst, value, [bits], repeat, blkStride, repStride)`.

    Lane i of each iteration is filled when bit i of the mask is set; 64 lanes have a bit.
    """
    dst = flat_view(stmt.operands[0], stmt.loc)
    value = typed_scalar(ir.as_expr(stmt.operands[1]), dst.buffer.dtype)  # type: ignore[arg-type]
    bits = int(stmt.attrs["mask"][0])  # type: ignore[index, arg-type]
    everywhere = lanes(
        dst.itemsize,
        repeat=setting(stmt, "repeatTimes"),
        lanes=min(64, BLOCKS * BLOCK_BYTES // dst.itemsize),
        block_stride=setting(stmt, "dstBlockStride"),
        repeat_stride=setting(stmt, "dstRepeatStride"),
    )
    if dst.itemsize == 2:
        context.note(
            "AI-BOUND-034",
            "warning",
            f"fill_experiment of 16-bit elements ({dst.buffer.name}): an iteration has 128 lanes, "
            "the compiler passes mask bits for 64 and leaves the others undefined; use T.tile.fill",
            stmt,
        )
    offsets = everywhere[:, [i for i in range(everywhere.shape[1]) if bits >> i & 1]]

    def run(number: float, out: AnyArray) -> None:
        out[offsets] = number

    return Instruction(
        op=stmt.op,
        pipe="V",
        kernel=run,
        args=(value, MemoryFrom(dst)),
        writes=views_at(dst, offsets),
        cycles=cost.vector(everywhere.size * dst.itemsize),
        scalar_barrier=isinstance(value, ir.Load),
    )


@lowers("gatherb")
def lower_block_gather(stmt: ir.TileOp, context: LoweringContext) -> Instruction:
    """`gatherb(dst, src, offset, repeat, blkStride, repStride)`: a block per byte offset."""
    dst, src, offsets = (flat_view(o, stmt.loc) for o in stmt.operands[:3])
    _check_offsets(stmt, offsets, context)
    repeat = setting(stmt, "repeat_time")
    places = lanes(
        dst.itemsize,
        repeat=repeat,
        lanes=BLOCKS * BLOCK_BYTES // dst.itemsize,
        block_stride=setting(stmt, "dst_blk_stride"),
        repeat_stride=setting(stmt, "dst_rep_stride"),
    ).reshape(repeat * BLOCKS, -1)
    within = np.arange(places.shape[1])
    used = counted(stmt, offsets, len(places), context)

    def run(memory: AnyArray, where: AnyArray, out: AnyArray) -> None:
        chosen = where.astype(np.int64)[:, None] // memory.itemsize + within
        out[places[: len(chosen)]] = memory.take(chosen, mode="clip").view(out.dtype)

    return Instruction(
        op=stmt.op,
        pipe="V",
        kernel=run,
        args=(MemoryFrom(src), used, MemoryFrom(dst)),
        reads=(src, used),
        writes=views_at(dst, places),
        cycles=cost.vector(places.size * dst.itemsize),
        taint=written_everywhere,
    )


@lowers("bilinear_interpolation")
def lower_interpolation(stmt: ir.TileOp, context: LoweringContext) -> Instruction:
    """Sums `h_repeat` gathered iterations, weighted per block or per iteration, `v_repeat` times.

    Output iteration v starts `v * v_r_offset` elements into dst.
    """
    dst, src, offsets, weights = (flat_view(o, stmt.loc) for o in stmt.operands[:4])
    _check_offsets(stmt, offsets, context)
    rounds, steps = setting(stmt, "v_repeat"), setting(stmt, "h_repeat")
    per_block = bool(setting(stmt, "repeat_mode"))
    block = BLOCK_BYTES // dst.itemsize
    used = counted(stmt, offsets, rounds * steps * BLOCKS, context)
    weight = counted(stmt, weights, rounds * steps * (BLOCKS if per_block else 1), context)
    one = lanes(
        dst.itemsize,
        repeat=1,
        lanes=setting(stmt, "mask"),
        block_stride=setting(stmt, "dst_blk_stride"),
        repeat_stride=0,
    )
    places = np.arange(rounds)[:, None] * setting(stmt, "v_r_offset") + one

    def run(memory: AnyArray, where: AnyArray, factor: AnyArray, out: AnyArray) -> None:
        chosen = where.astype(np.int64)[:, None] // memory.itemsize + np.arange(block)
        data = memory.take(chosen, mode="clip").reshape(rounds, steps, BLOCKS, block)
        scaled = data * factor.reshape(rounds, steps, -1, 1)
        total = np.zeros((rounds, BLOCKS * block), dtype=out.dtype)
        for step in range(steps):  # rounded after every step, as the accumulator in UB is
            total += scaled[:, step].reshape(rounds, -1)
        out[places] = total[:, : places.shape[1]]

    return Instruction(
        op=stmt.op,
        pipe="V",
        kernel=run,
        args=(MemoryFrom(src), used, weight, MemoryFrom(dst)),
        reads=(src, used, weight),
        writes=views_at(dst, places),
        cycles=cost.vector(places.size * dst.itemsize, 2 * steps),
        arithmetic=cost.on_lanes(dst, places.size * steps),
        taint=written_everywhere,
    )


def _check_offsets(stmt: ir.TileOp, offsets: View, context: LoweringContext) -> None:
    if offsets.buffer.dtype not in ("uint32", "int32"):
        context.note(
            "AI-TYPE-005",
            "error",
            f"{stmt.op} offsets {offsets.buffer.name} are {offsets.buffer.dtype}; "
            "they are byte offsets of dtype uint32",
            stmt,
        )
