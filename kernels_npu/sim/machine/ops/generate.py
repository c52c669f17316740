"""Operations that create values: fill, index vectors, register settings."""

from __future__ import annotations

import numpy as np

from kernels_npu.sim import ir
from kernels_npu.sim.machine import cost
from kernels_npu.sim.machine.instruction import AnyArray, Instruction, LoweringContext, lowers
from kernels_npu.sim.machine.operands import flat_view, static_int
from kernels_npu.sim.machine.ops.elementwise import counted, typed_scalar


def _fill(value: float, out: AnyArray) -> None:
    out[...] = value


def _index_run(first: float, step: float, out: AnyArray) -> None:
    steps: AnyArray = np.arange(out.size)
    out[...] = first + step * steps


@lowers("fill", "clear")
def lower_fill(stmt: ir.TileOp, context: LoweringContext) -> Instruction:
    """`fill(dst, value)`: every element of the run becomes `value`."""
    dst = flat_view(stmt.operands[0], stmt.loc)
    value = stmt.operands[1] if len(stmt.operands) > 1 else ir.Const(0, dst.buffer.dtype)
    if isinstance(value, ir.Buffer):
        # A one-element buffer stands for its element.
        value = ir.Load(value, tuple(ir.Const(0, "int32") for _ in value.shape), value.dtype)
    scalar = ir.as_expr(value)  # type: ignore[arg-type]
    pipe = "MTE2" if dst.buffer.scope == "l1" else "V"
    return Instruction(
        op=stmt.op,
        pipe=pipe,
        kernel=_fill,
        args=(typed_scalar(scalar, dst.buffer.dtype), dst),
        writes=(dst,),
        cycles=cost.vector(dst.count * dst.itemsize),
        scalar_barrier=isinstance(scalar, ir.Load),
    )


@lowers("createvecindex")
def lower_index(stmt: ir.TileOp, context: LoweringContext) -> Instruction:
    """`createvecindex(dst, first)`: dst.flat[i] = first + i."""
    dst = flat_view(stmt.operands[0], stmt.loc)
    return Instruction(
        op=stmt.op,
        pipe="V",
        kernel=_index_run,
        args=(ir.as_expr(stmt.operands[1]), 1, dst),  # type: ignore[arg-type]
        writes=(dst,),
        cycles=cost.vector(dst.count * dst.itemsize, 2),
    )


def _unit_step(stmt: ir.TileOp, step: ir.Expr, context: LoweringContext) -> ir.Expr:
    """Target pto counts up, or down when the difference is a negative constant."""
    down = isinstance(step, ir.Const) and step.value < 0
    unit = -1 if down else 1
    if not isinstance(step, ir.Const) or step.value != unit:
        context.note(
            "AI-BOUND-036",
            "error",
            f"arith_progression with a difference other than 1 or -1: target pto counts by {unit}; "
            "multiply the progression by the difference afterwards",
            stmt,
        )
    return ir.Const(unit, "int32")


@lowers("arith_progression")
def lower_progression(stmt: ir.TileOp, context: LoweringContext) -> Instruction:
    """`arith_progression(dst, first, diff, count)`: dst.flat[i] = first + i * diff, i < count."""
    whole = flat_view(stmt.operands[0], stmt.loc)
    count = stmt.attrs.get("count")
    size = whole.count if count is None else static_int(count, stmt.loc, "count")  # type: ignore[arg-type]
    dst = counted(stmt, whole, size, context)
    first, step = (ir.as_expr(o) for o in stmt.operands[1:3])  # type: ignore[arg-type]
    if context.target == "pto":
        dst, step = whole, _unit_step(stmt, step, context)
    return Instruction(
        op=stmt.op,
        pipe="V",
        kernel=_index_run,
        args=(first, step, dst),
        writes=(dst,),
        cycles=cost.vector(dst.count * dst.itemsize, 2),
    )
