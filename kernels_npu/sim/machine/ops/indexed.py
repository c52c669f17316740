"""Gather by byte offsets."""

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
from kernels_npu.sim.machine.operands import flat_view
from kernels_npu.sim.machine.ops.elementwise import clamped
from kernels_npu.sim.machine.ops.repeat_reduce import written_everywhere


def _gather_scaling(
    memory: AnyArray,
    offsets: AnyArray,
    out: AnyArray,
    outside: Callable[[int, int], None] | None,
) -> None:
    """Target pto turns the byte offsets into element offsets where they lie."""
    _gather(memory, offsets, 0, out, outside)
    offsets //= memory.itemsize


def _gather(
    memory: AnyArray,
    offsets: AnyArray,
    base: int,
    out: AnyArray,
    outside: Callable[[int, int], None] | None,
) -> None:
    places = offsets.astype(np.int64) + int(base)
    if places.size and outside is not None:
        for place in (places.min(), places.max()):
            if not 0 <= place <= memory.nbytes - memory.itemsize:
                outside(int(place), memory.nbytes)
    np.take(memory, places // memory.itemsize, out=out, mode="clip")


@lowers("gather")
def lower_gather(stmt: ir.TileOp, context: LoweringContext) -> Instruction:
    """`gather(dst, src, offset, base)`: dst.flat[i] = src at byte `base + offset[i]`.

    An offset may lead past the source's end, into whatever lies there. Target pto overwrites the
    offsets.
    """
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
    scales = context.target == "pto"
    start = ir.as_expr(base)  # type: ignore[arg-type]
    if scales and not (isinstance(start, ir.Const) and start.value == 0):
        context.note(
            "AI-BOUND-037",
            "error",
            f"gather from a base address in {src.buffer.name}: target pto ignores it; slice the "
            "source, or add the base to the offsets",
            stmt,
        )
    return Instruction(
        op=stmt.op,
        pipe="V",
        kernel=_gather_scaling if scales else _gather,
        args=(
            MemoryFrom(src),
            offsets,
            *(() if scales else (start,)),
            dst,
            OutsideReport(src.buffer),
        ),
        reads=(src, offsets),
        writes=(dst, offsets) if scales else (dst,),
        cycles=cost.vector(dst.count * 32),
        # Which source elements are taken is known at run time only, so all must be written.
        taint=written_everywhere,
    )
