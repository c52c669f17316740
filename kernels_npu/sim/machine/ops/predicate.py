"""Compare into packed bit masks, and select by them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kernels_npu.sim import ir
from kernels_npu.sim.machine import cost
from kernels_npu.sim.machine.instruction import (
    AnyArray,
    Instruction,
    LoweringContext,
    TaintRule,
    lowers,
)
from kernels_npu.sim.machine.operands import View, flat_view
from kernels_npu.sim.machine.ops.elementwise import check_scalar, clamped, typed_scalar
from kernels_npu.sim.scalar_ops import is_float

_COMPARE: dict[str, np.ufunc] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
    "LT": np.less,
    "LE": np.less_equal,
}


def _compare(ufunc: np.ufunc) -> Callable[[AnyArray, AnyArray | float, AnyArray], None]:
    def compare(a: AnyArray, b: AnyArray | float, out: AnyArray) -> None:
        out[...] = np.packbits(ufunc(a, b), bitorder="little").view(out.dtype)

    return compare


def _unpack(mask: AnyArray, count: int) -> AnyArray:
    bits: AnyArray = np.unpackbits(mask.view(np.uint8), count=count, bitorder="little").view(bool)
    return bits


def _select(mask: AnyArray, a: AnyArray, b: AnyArray | float, out: AnyArray) -> None:
    out[...] = np.where(_unpack(mask, out.size), a, out.dtype.type(b) if np.isscalar(b) else b)


def _select_periodic(mask: AnyArray, a: AnyArray, b: AnyArray, out: AnyArray) -> None:
    # One mask register serves every 256-byte iteration of the vector unit.
    lanes = 256 // out.itemsize
    bits = np.resize(_unpack(mask, min(lanes, mask.nbytes * 8)), out.size)
    out[...] = np.where(bits, a, b)


@lowers("compare")
def lower_compare(stmt: ir.TileOp, context: LoweringContext) -> Instruction:
    """`compare(dst, src0, src1, mode)`: bit k of dst (LSB first) is src0[k] mode src1[k]."""
    whole_dst, first = (flat_view(o, stmt.loc) for o in stmt.operands[:2])
    dst = clamped(whole_dst, -(-first.count // 8) // whole_dst.itemsize)
    second = stmt.operands[2]
    scalar = isinstance(second, ir.Expr)
    other: View | ir.Expr
    if isinstance(second, ir.Expr):
        other = typed_scalar(second, first.buffer.dtype)
    else:
        other = clamped(flat_view(second, stmt.loc), first.count)
    mode = str(stmt.attrs.get("mode"))
    if first.count * first.itemsize % 256:
        context.note(
            "AI-BOUND-005",
            "error",
            f"compare over {first.count * first.itemsize} bytes of {first.buffer.name}; "
            "the length must be a multiple of 256 bytes",
            stmt,
        )
    if first.buffer.dtype == "int32" and mode != "EQ":
        context.note(
            "AI-TYPE-006",
            "error",
            f"compare {mode} on int32 ({first.buffer.name}); the vector unit compares int32 for EQ "
            "only, cast to float32 first",
            stmt,
        )
    if isinstance(second, ir.Expr):
        check_scalar(stmt, second, context)
    reads = (first,) if scalar else (first, other)
    return Instruction(
        op=stmt.op,
        pipe="V",
        kernel=_compare(_COMPARE[mode]),
        args=(first, other, dst),
        reads=reads,  # type: ignore[arg-type]
        writes=(dst,),
        cycles=cost.vector(first.count * first.itemsize),
        taint=_compare_taint(8 * dst.itemsize),
        scalar_barrier=isinstance(second, ir.Load),
    )


@lowers("select")
def lower_select(stmt: ir.TileOp, context: LoweringContext) -> Instruction:
    """`select(dst, mask, src0, src1, mode)`: a set bit takes src0, a clear bit src1."""
    dst, mask, first = (flat_view(o, stmt.loc) for o in stmt.operands[:3])
    second = stmt.operands[3]
    scalar = isinstance(second, ir.Expr)
    other: View | ir.Expr
    if isinstance(second, ir.Expr):
        other = typed_scalar(second, dst.buffer.dtype)
    else:
        other = clamped(flat_view(second, stmt.loc), dst.count)
    mode = str(stmt.attrs.get("selMode", stmt.attrs.get("mode")))
    if is_float(mask.buffer.dtype):
        context.note(
            "AI-TYPE-011",
            "error",
            f"select takes {mask.buffer.name}, which is {mask.buffer.dtype}, as its mask; the bits "
            "of its elements would choose",
            stmt,
        )
    # Target pto has one select, which consumes the mask bit by bit in every mode.
    periodic = mode == "VSEL_CMPMASK_SPR" and context.target != "pto"
    lanes = min(dst.count, 256 // dst.itemsize) if periodic else dst.count
    bits = clamped(mask, -(-lanes // (8 * mask.itemsize)))
    first = clamped(first, dst.count)
    return Instruction(
        op=stmt.op,
        pipe="V",
        kernel=_select_periodic if periodic else _select,
        args=(bits, first, other, dst),
        reads=(bits, first) if scalar else (bits, first, other),  # type: ignore[arg-type]
        writes=(dst,),
        cycles=cost.vector(dst.count * dst.itemsize),
        taint=_select_taint(8 * mask.itemsize, lanes),
        scalar_barrier=isinstance(second, ir.Load),
    )


def _compare_taint(bits: int) -> TaintRule:
    """Written elements of the mask, of `bits` bits: those with a bit of a written element.

    The other bits of such an element select among elements that are unwritten themselves.
    """

    def taint(sources: list[AnyArray], shape: tuple[int, ...]) -> AnyArray:
        written = np.zeros(shape[0] * bits, dtype=bool)
        compared = np.logical_and.reduce(sources)
        written[: compared.size] = compared[: written.size]
        grouped: AnyArray = np.logical_or.reduce(written.reshape(shape[0], bits), axis=1)
        return grouped

    return taint


def _select_taint(bits: int, lanes: int) -> TaintRule:
    """The mask decides at run time which side is taken, so both sides must be written."""

    def taint(sources: list[AnyArray], shape: tuple[int, ...]) -> AnyArray:
        mask, *sides = sources
        decided: AnyArray = np.resize(np.repeat(mask, bits)[:lanes], shape)
        for side in sides:
            decided &= side.reshape(shape)
        return decided

    return taint
