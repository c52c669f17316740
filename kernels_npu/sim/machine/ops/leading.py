"""Operations on the first `count` elements: clamp, round, and the `_experiment` arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kernels_npu.sim import ir
from kernels_npu.sim.machine import cost
from kernels_npu.sim.machine.instruction import AnyArray, Instruction, LoweringContext, lowers
from kernels_npu.sim.machine.operands import View, flat_view, static_int
from kernels_npu.sim.machine.ops.elementwise import (
    all_sources,
    check_dtype,
    counted,
    same_dtype,
    typed_scalar,
    within_memory,
)
from kernels_npu.sim.machine.rounding import round_away


@dataclass(frozen=True, kw_only=True)
class _Row:
    """`tiles` sources, then `scalars` numbers, then the kernel's destination."""

    tiles: int
    scalars: int
    kernel: Callable[..., object]
    passes: int = 1


def _clamp(a: AnyArray, low: float, high: float, out: AnyArray) -> None:
    np.maximum(a, low, out=out)
    np.minimum(out, high, out=out)


def _at_most(a: AnyArray, high: float, out: AnyArray) -> None:
    np.minimum(a, high, out=out)


def _at_least(a: AnyArray, low: float, out: AnyArray) -> None:
    np.maximum(a, low, out=out)


_ROWS = {
    "clamp": _Row(tiles=1, scalars=2, kernel=_clamp, passes=2),
    "clamp_max": _Row(tiles=1, scalars=1, kernel=_at_most),
    "clamp_min": _Row(tiles=1, scalars=1, kernel=_at_least),
    "round": _Row(tiles=1, scalars=0, kernel=np.rint),
    "sub_experiment": _Row(tiles=2, scalars=0, kernel=np.subtract),
    "abs_experiment": _Row(tiles=1, scalars=0, kernel=np.abs),
    "mins_experiment": _Row(tiles=1, scalars=1, kernel=_at_most),
}


def _round_half_away(a: AnyArray, out: AnyArray) -> None:
    np.copyto(out, round_away(a))


def element_count(stmt: ir.TileOp, whole: View, context: LoweringContext) -> int:
    """How many elements the operation touches.

    AscendC takes `count`; the pto generator drops it and processes the whole destination tile.
    """
    given = stmt.attrs.get("count")
    if given is None:
        return whole.count
    if context.target != "pto":
        return static_int(given, stmt.loc, "count")  # type: ignore[arg-type]
    if not isinstance(given, int) or given != whole.count:
        context.note(
            "AI-BOUND-030",
            "warning",
            f"{stmt.op} with count {given}: target pto ignores the count and processes all "
            f"{whole.count} elements of {whole.buffer.name}; pass a slice of that size",
            stmt,
        )
    return whole.count


@lowers(*_ROWS)
def lower_leading(stmt: ir.TileOp, context: LoweringContext) -> Instruction:
    """`op(dst, sources..., scalars..., count)`: the elements behind `count` stay as they are."""
    row = _ROWS[stmt.op]
    whole = [flat_view(o, stmt.loc) for o in stmt.operands[: 1 + row.tiles]]
    count = element_count(stmt, whole[0], context)
    dst, *sources = (counted(stmt, view, count, context) for view in whole)
    check_dtype(stmt, dst, context)
    for source in sources:
        same_dtype(stmt, dst, source)
    scalars = [
        typed_scalar(ir.as_expr(o), dst.buffer.dtype)  # type: ignore[arg-type]
        for o in stmt.operands[1 + row.tiles :]
    ]
    kernel = row.kernel
    if stmt.op == "round" and context.target == "pto":
        kernel = _round_half_away
    if any(view.overruns for view in (dst, *sources)):
        kernel = within_memory(kernel)
    return Instruction(
        op=stmt.op,
        pipe="V",
        kernel=kernel,
        args=(*sources, *scalars, dst),
        reads=tuple(sources),
        writes=(dst,),
        cycles=cost.vector(dst.count * dst.itemsize, row.passes),
        arithmetic=cost.on_lanes(dst),
        taint=all_sources,
    )
