"""Conversions between dtypes with the vector unit's rounding modes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kernels_npu.errors import KernelSourceError
from kernels_npu.sim import ir
from kernels_npu.sim.dtypes import numpy_dtype
from kernels_npu.sim.machine import cost
from kernels_npu.sim.machine.half import to_half, widen
from kernels_npu.sim.machine.instruction import (
    DEQ_SCALE,
    AnyArray,
    Instruction,
    LoweringContext,
    lowers,
)
from kernels_npu.sim.machine.operands import View, flat_view
from kernels_npu.sim.machine.ops.elementwise import all_sources, counted, within_memory
from kernels_npu.sim.machine.ops.leading import element_count
from kernels_npu.sim.machine.rounding import INTEGRAL
from kernels_npu.sim.machine.scalar_math import int_range
from kernels_npu.sim.scalar_ops import is_float

Converter = Callable[[AnyArray, AnyArray], None]


#: Pairs (dst, src) that the vector unit converts in one instruction.
_SUPPORTED = {("float32", s) for s in ("float16", "bfloat16", "int16", "int32", "int64", "float32")}
_SUPPORTED |= {("float16", s) for s in ("float32", "int8", "uint8", "int16", "int32", "int4")}
_SUPPORTED |= {("bfloat16", "float32"), ("int32", "bfloat16"), ("int32", "float32")}
_SUPPORTED |= {("int32", "float16"), ("int32", "int16"), ("int32", "int64"), ("int64", "int32")}
_SUPPORTED |= {("int16", "float32"), ("int16", "float16"), ("int16", "int32"), ("int64", "float32")}
_SUPPORTED |= {("int8", "float16"), ("uint8", "float16"), ("int4", "float16")}


def converter(dst: str, src: str, mode: str) -> Converter:
    """A function `(source, out)` that converts `src` to `dst` under rounding `mode`."""
    if is_float(src) and not is_float(dst):
        return _float_to_int(dst, mode)
    if not is_float(src) and not is_float(dst):
        return _int_to_int(dst)
    if src == dst == "float32" and mode != "CAST_NONE":
        integral = INTEGRAL.get(mode, np.rint)
        return lambda a, out: np.copyto(out, integral(a))
    narrows = numpy_dtype(dst).itemsize < numpy_dtype(src).itemsize if is_float(src) else True
    if narrows and mode not in ("CAST_NONE", "CAST_RINT"):
        return _directed(dst, mode)
    if src == "float32" and dst == "float16":
        return to_half
    if src == "float16" and dst == "float32":
        return lambda a, out: np.copyto(out, widen(a))
    return lambda a, out: np.copyto(out, a, casting="unsafe")


def is_scaled(dst: str, src: str) -> bool:
    """Whether a conversion multiplies by the register that `set_deq_scale` sets."""
    return dst == "float16" and src == "int32"


def scaling(convert: Converter) -> Callable[[AnyArray, AnyArray, float], None]:
    """`convert` after a multiplication by the register's value."""

    def scaled(a: AnyArray, out: AnyArray, scale: float) -> None:
        convert(a if scale == 1 else a * np.float64(scale), out)

    return scaled


def _int_to_int(dst: str) -> Converter:
    low, high = int_range(dst)

    def convert(a: AnyArray, out: AnyArray) -> None:
        out[...] = np.clip(
            a, max(low, int_range(a.dtype.name)[0]), min(high, int_range(a.dtype.name)[1])
        )

    return convert


def _float_to_int(dst: str, mode: str) -> Converter:
    low, high = int_range(dst)
    rounding = INTEGRAL["CAST_RINT" if mode == "CAST_ODD" else mode]

    def convert(a: AnyArray, out: AnyArray) -> None:
        wide = np.nan_to_num(rounding(a.astype(np.float64)), nan=0.0, posinf=high, neginf=low)
        # float64 cannot hold the greatest int64, so what reaches it is set afterwards.
        out[...] = np.where(wide >= high, low, wide).clip(low).astype(out.dtype)
        out[wide >= high] = high

    return convert


def _directed(dst: str, mode: str) -> Converter:
    """To a narrower float, rounding toward a side: the nearest value, then one step back or on."""
    narrow = numpy_dtype(dst)
    pattern = np.dtype(f"i{narrow.itemsize}")

    def convert(a: AnyArray, out: AnyArray) -> None:
        if out.dtype.itemsize > narrow.itemsize:
            np.copyto(out, a, casting="unsafe")  # precise mode: there is room for the value
            return
        exactly = a.astype(np.float64)
        nearest = exactly.astype(narrow) if a.dtype.kind in "iu" else a.astype(narrow)
        wide = nearest.astype(np.float64)
        bits = nearest.view(pattern).astype(np.int64)
        exact = (wide == exactly) | ~np.isfinite(exactly)
        grew = np.abs(wide) > np.abs(exactly)
        if mode == "CAST_ODD":
            truncated = np.where(grew, bits - 1, bits)
            result = np.where(exact, bits, truncated | 1)
        elif mode == "CAST_ROUND":
            outward = (bits + 1).astype(pattern).view(narrow).astype(np.float64)
            tie = np.abs(exactly - wide) == np.abs(outward - exactly)
            result = np.where(~exact & ~grew & tie, bits + 1, bits)
        else:
            away = _wants_larger_magnitude(exactly, mode)
            step = np.where(grew & ~away, -1, np.where(~grew & away, 1, 0))
            result = np.where(exact, bits, bits + step)
        out[...] = result.astype(pattern).view(narrow)

    return convert


def _wants_larger_magnitude(a: AnyArray, mode: str) -> AnyArray:
    if mode == "CAST_FLOOR":
        return np.signbit(a)
    if mode == "CAST_CEIL":
        return ~np.signbit(a)
    return np.zeros(a.shape, dtype=bool)


def conversion_pair(stmt: ir.TileOp, dst: View, src: View, context: LoweringContext) -> None:
    """Report a conversion that has no instruction on the device."""
    pair = (dst.buffer.dtype, src.buffer.dtype)
    if pair not in _SUPPORTED:
        context.note(
            "AI-TYPE-003",
            "error",
            f"the vector unit has no conversion from {pair[1]} to {pair[0]}; "
            "convert through float32 or float16",
            stmt,
        )


@lowers("cast")
def lower_cast(stmt: ir.TileOp, context: LoweringContext) -> Instruction:
    """`cast(dst, src, mode, count)`: the first `count` elements."""
    whole_dst, whole_src = (flat_view(o, stmt.loc) for o in stmt.operands[:2])
    mode = str(stmt.attrs.get("mode", "CAST_NONE"))
    size = element_count(stmt, whole_dst, context)
    if mode not in (*INTEGRAL, "CAST_ODD"):
        raise KernelSourceError(
            "AI-TYPE-004",
            f"{mode!r} is not a rounding mode",
            where=stmt.loc,
            rule="modes are " + ", ".join([*INTEGRAL, "CAST_ODD"]),
            fix="use CAST_NONE to widen and CAST_RINT to narrow",
        )
    dst, src = (counted(stmt, whole, size, context) for whole in (whole_dst, whole_src))
    conversion_pair(stmt, dst, src, context)
    if mode == "CAST_NONE" and (dst.buffer.dtype, src.buffer.dtype) == ("bfloat16", "float32"):
        context.note(
            "AI-TYPE-010",
            "warning",
            f"cast of {src.buffer.name} to bfloat16 with CAST_NONE: this conversion always rounds",
            stmt,
        )
    scaled = is_scaled(dst.buffer.dtype, src.buffer.dtype)
    convert = converter(dst.buffer.dtype, src.buffer.dtype, mode)
    if dst.overruns or src.overruns:
        convert = within_memory(convert)
    return Instruction(
        op=stmt.op,
        pipe="V",
        kernel=scaling(convert) if scaled else convert,
        args=(src, dst, DEQ_SCALE) if scaled else (src, dst),
        reads=(src,),
        writes=(dst,),
        cycles=cost.vector(size * max(dst.itemsize, src.itemsize)),
        taint=all_sources,
    )
