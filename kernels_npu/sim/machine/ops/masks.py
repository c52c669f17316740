"""Gathers by a mask: gather_mask with a pattern or a list, gathermask_experiment with bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kernels_npu.sim import ir
from kernels_npu.sim.machine import cost
from kernels_npu.sim.machine.instruction import (
    AnyArray,
    Instruction,
    LoweringContext,
    MemoryFrom,
    OutsideReport,
    lowers,
)
from kernels_npu.sim.machine.operands import View, flat_view, static_int
from kernels_npu.sim.machine.ops.elementwise import clamped, counted, same_dtype
from kernels_npu.sim.machine.ops.repeat_reduce import written_everywhere
from kernels_npu.sim.machine.ops.repeats import BLOCK_BYTES, BLOCKS, lanes, setting

_REPEAT_BYTES = BLOCKS * BLOCK_BYTES

#: Pattern -> (first, step) of the elements that it keeps.
_PATTERNS = {
    "P0101": (0, 2),
    "P1010": (1, 2),
    "P0001": (0, 4),
    "P0010": (1, 4),
    "P0100": (2, 4),
    "P1000": (3, 4),
    "P1111": (0, 1),
}


@lowers("gather_mask")
def lower_gather_mask(stmt: ir.TileOp, context: LoweringContext) -> Instruction:
    """`gather_mask(dst, src, pattern)`: the elements that a pattern or a list of places names."""
    dst, src = (flat_view(o, stmt.loc) for o in stmt.operands[:2])
    same_dtype(stmt, dst, src)
    if len(stmt.operands) > 2:
        return _by_list(stmt, dst, src, flat_view(stmt.operands[2], stmt.loc), context)
    first, step = _PATTERNS[str(stmt.attrs["pattern"])]
    taken = src.count
    if context.target == "ascendc":  # whole iterations, also beyond the end of the source
        per_repeat = _REPEAT_BYTES // src.itemsize
        taken = -(-taken // per_repeat) * per_repeat
    kept = len(range(first, taken, step))
    if kept > dst.count:
        out = counted(stmt, dst, kept, context)
        source = counted(stmt, src, taken, context) if taken > src.count else src
    else:
        out = clamped(dst, len(range(first, src.count, step)))
        source = src

    def run(values: AnyArray, result: AnyArray) -> None:
        chosen = values[first::step][: result.size].copy()
        result[: chosen.size] = chosen

    return Instruction(
        op=stmt.op,
        pipe="V",
        kernel=run,
        args=(source, out),
        reads=(source,),
        writes=(out,),
        cycles=cost.vector(taken * src.itemsize),
        taint=lambda sources, shape: sources[0][first::step][: shape[0]],
        tail=_behind(dst, out.count),
    )


def _behind(dst: View, count: int) -> View | None:
    """What `count` results leave of the destination."""
    if count >= dst.count:
        return None
    rest = dst.count - count
    return View(dst.buffer, dst.offset + count, 1, rest, rest, flat=True, part=True)


def _by_list(
    stmt: ir.TileOp, dst: View, src: View, places: View, context: LoweringContext
) -> Instruction:
    """dst[i] = src[places[i]]; AscendC turns `places` into byte offsets where they lie."""
    scaled = context.target == "ascendc"
    count = places.count if scaled else min(places.count, dst.count)
    used, out = clamped(places, count), counted(stmt, dst, count, context)

    def run(
        memory: AnyArray,
        where: AnyArray,
        result: AnyArray,
        outside: Callable[[int, int], None] | None,
    ) -> None:
        chosen = where.astype(np.int64)
        if chosen.size and outside is not None and chosen.max() >= memory.size:
            outside(int(chosen.max()) * memory.itemsize, memory.nbytes)
        if scaled:
            where *= where.dtype.type(memory.itemsize)
        result[...] = memory.take(chosen, mode="clip")[: result.size]

    return Instruction(
        op=stmt.op,
        pipe="V",
        kernel=run,
        args=(MemoryFrom(src), used, out, OutsideReport(src.buffer)),
        reads=(src, used),
        writes=(out, used) if scaled else (out,),
        cycles=cost.vector(count * BLOCK_BYTES),
        taint=written_everywhere,
    )


@lowers("gathermask_experiment")
def lower_bit_mask(stmt: ir.TileOp, context: LoweringContext) -> Instruction:
    """The elements of src whose bit in the pattern is set (LSB first), one behind the other.

    Normal mode takes whole iterations, counter mode the first `mask` elements of each.
    """
    dst, src, pattern = (flat_view(o, stmt.loc) for o in stmt.operands[:3])
    same_dtype(stmt, dst, src)
    params = stmt.attrs["GatherMaskParams"]
    block_stride, repeat, repeat_stride, pattern_stride = (
        static_int(n, stmt.loc, "GatherMaskParams")  # type: ignore[arg-type]
        for n in params  # type: ignore[union-attr]
    )
    whole = _REPEAT_BYTES // src.itemsize
    width = setting(stmt, "mask") if bool(stmt.attrs["reduceMode"]) else whole
    offsets = lanes(
        src.itemsize,
        repeat=repeat,
        lanes=width,
        block_stride=block_stride,
        repeat_stride=repeat_stride,
    )
    bits = np.arange(repeat)[:, None] * pattern_stride * BLOCK_BYTES * 8 + np.arange(width)
    source = counted(stmt, src, int(offsets.max()) + 1, context)
    mask = counted(stmt, pattern, -(-(int(bits.max()) + 1) // (8 * pattern.itemsize)), context)

    def run(values: AnyArray, chosen: AnyArray, out: AnyArray) -> None:
        keep = np.unpackbits(chosen.view(np.uint8), bitorder="little")[bits].view(bool)
        kept = values[offsets][keep]
        out[: min(kept.size, out.size)] = kept[: out.size]

    return Instruction(
        op=stmt.op,
        pipe="V",
        kernel=run,
        args=(source, mask, dst),
        reads=(source, mask),
        writes=(dst,),
        cycles=cost.vector(offsets.size * src.itemsize),
        taint=written_everywhere,
    )
