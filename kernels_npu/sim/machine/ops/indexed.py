"""Gather by byte offsets."""

from __future__ import annotations

import numpy as np

from kernels_npu.sim import ir
from kernels_npu.sim.machine import cost
from kernels_npu.sim.machine.instruction import AnyArray, Instruction, LoweringContext, lowers
from kernels_npu.sim.machine.operands import flat_view
from kernels_npu.sim.machine.ops.elementwise import clamped


def _gather(src: AnyArray, offsets: AnyArray, base: int, out: AnyArray) -> None:
    index = (offsets.astype(np.int64) + int(base)) // src.itemsize
    np.take(src, index, out=out, mode="clip")


@lowers("gather")
def lower_gather(stmt: ir.TileOp, context: LoweringContext) -> Instruction:
    """`gather(dst, src, offset, base)`: dst.flat[i] = src at byte `base + offset[i]`."""
    whole_dst, src, whole_offsets = (flat_view(o, stmt.loc) for o in stmt.operands[:3])
    count = min(whole_dst.count, whole_offsets.count)
    dst, offsets = clamped(whole_dst, count), clamped(whole_offsets, count)
    base = stmt.operands[3] if len(stmt.operands) > 3 else stmt.attrs.get("base", 0)
    if offsets.buffer.dtype not in ("uint32", "int32"):
        context.note(
            "AI-TYPE-005",
            "error",
            f"gather offsets {offsets.buffer.name} are {offsets.buffer.dtype}; "
            "they are byte offsets of dtype uint32",
            stmt,
        )
    return Instruction(
        op=stmt.op,
        pipe="V",
        kernel=_gather,
        args=(src, offsets, ir.as_expr(base), dst),  # type: ignore[arg-type]
        reads=(src, offsets),
        writes=(dst,),
        cycles=cost.vector(dst.count * 32),
        # Which source elements are taken is known at run time only; the whole source must be written.
        taint=lambda sources, shape: np.full(shape, sources[0].all()),
    )
