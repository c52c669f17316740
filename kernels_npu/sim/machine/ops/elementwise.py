"""Elementwise vector operations on flat runs: dst[i] = f(src0[i], src1[i] or a scalar)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kernels_npu.errors import KernelSourceError
from kernels_npu.sim import ir
from kernels_npu.sim.machine import cost, functions
from kernels_npu.sim.machine.half import widen
from kernels_npu.sim.machine.instruction import (
    AnyArray,
    Instruction,
    LoweringContext,
    lowers,
)
from kernels_npu.sim.machine.operands import View, flat_view, shape_of
from kernels_npu.sim.scalar_ops import is_float


def _reciprocal(a: AnyArray, out: AnyArray) -> None:
    np.divide(a.dtype.type(1), a, out)


def _rsqrt(a: AnyArray, out: AnyArray) -> None:
    np.sqrt(a, out)
    np.divide(out.dtype.type(1), out, out)


def _relu(a: AnyArray, out: AnyArray) -> None:
    np.maximum(a, a.dtype.type(0), out=out)


def _sigmoid(a: AnyArray, out: AnyArray) -> None:
    wide = widen(a)
    out[...] = 1.0 / (1.0 + functions.exp(-wide))


def _silu(a: AnyArray, out: AnyArray) -> None:
    wide = widen(a)
    out[...] = wide / (1.0 + functions.exp(-wide))


def _int_div(a: AnyArray, b: AnyArray, out: AnyArray) -> None:
    if a.dtype.kind in "iu":
        out[...] = np.trunc(np.true_divide(a, b))
    else:
        np.divide(a, b, out)


def _scalar_divide(a: AnyArray, b: float, out: AnyArray) -> None:
    # The device compiler emits a multiplication by the reciprocal, rounded to the operand's dtype.
    np.multiply(a, (np.float32(1) / np.float32(b)).astype(a.dtype), out)


def _power(a: AnyArray, b: AnyArray, out: AnyArray) -> None:
    out[...] = np.power(a.astype(np.float64), b.astype(np.float64))


_BINARY: dict[str, Callable[..., object]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _int_div,
    "max": lambda a, b, out: np.maximum(a, b, out=out),  # NumPy takes no third positional here
    "min": lambda a, b, out: np.minimum(a, b, out=out),
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "pow": _power,
}

_SCALAR: dict[str, Callable[..., object]] = {"div": _scalar_divide}

_UNARY: dict[str, Callable[[AnyArray, AnyArray], object]] = {
    "exp": functions.exp,
    "ln": functions.log,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "sin": functions.sin,
    "cos": functions.cos,
    "bitwise_not": np.bitwise_not,
    "reciprocal": _reciprocal,
    "rsqrt": _rsqrt,
    "relu": _relu,
    "sigmoid": _sigmoid,
    "silu": _silu,
}

#: Vector passes over the data, for the cost model.
_PASSES = {"div": 4, "exp": 4, "ln": 4, "sqrt": 4, "rsqrt": 5, "reciprocal": 4, "sigmoid": 8}
_PASSES |= {"silu": 9, "sin": 20, "cos": 20, "pow": 30}

_BITWISE = {"bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"}
_SHIFTS = {"bitwise_lshift": np.left_shift, "bitwise_rshift": np.right_shift}
_FLOAT_ONLY = {"exp", "ln", "sqrt", "rsqrt", "reciprocal", "sin", "cos", "sigmoid", "silu", "div"}


def all_sources(sources: list[AnyArray], shape: tuple[int, ...]) -> AnyArray:
    """An element is written when all its sources are."""
    result = np.ones(shape, dtype=bool)
    for source in sources:
        flat = source.reshape(-1)
        if flat.size >= result.size:
            result &= flat[: result.size].reshape(shape)
    return result


def check_dtype(
    stmt: ir.TileOp, view: View, context: LoweringContext, *, float_only: bool = False
) -> None:
    """Refuse arithmetic that the vector unit lacks; conversions and moves are not checked here."""
    dtype = view.buffer.dtype
    lacking = dtype in context.soc.no_vector_arithmetic
    if float_only or stmt.op in _FLOAT_ONLY:
        lacking = lacking or not is_float(dtype)
    if stmt.op in _BITWISE:
        lacking = is_float(dtype)
    if lacking:
        context.note(
            "AI-TYPE-001",
            "error",
            f"the vector unit of {context.soc.name} has no {stmt.op} for {dtype} "
            f"({view.buffer.name}); cast to float32 (or float16), compute, and cast back",
            stmt,
        )


def clamped(a: View, count: int) -> View:
    """`a` limited to the first `count` elements: the device passes the destination's count."""
    return View(a.buffer, a.offset, 1, count, count, flat=True)


def counted(stmt: ir.TileOp, operand: View, count: int, context: LoweringContext) -> View:
    """The first `count` elements from the operand's start, also when that leads past its buffer."""
    limit = 1
    for size in shape_of(operand.buffer, stmt.loc):
        limit *= size
    if isinstance(operand.offset, ir.Const):
        overruns = int(operand.offset.value) + count > limit
    else:  # a slice at a run-time place: more than the slice may be more than the buffer
        overruns = count > operand.count
    if overruns:
        context.note(
            "AI-BOUND-013",
            "warning",
            f"{stmt.op} is asked for {count} elements of {operand.buffer.name}, which has {limit}"
            + (f", from a slice of {operand.count}" if operand.count != limit else "")
            + "; it goes on into the bytes behind it",
            stmt,
        )
    return View(operand.buffer, operand.offset, 1, count, count, flat=True, overruns=overruns)


def within_memory(kernel: Callable[..., object]) -> Callable[..., None]:
    """`kernel` on as many elements as all its arrays have before their memory ends."""

    def clipped(*args: Any) -> None:
        count = min(a.size for a in args if isinstance(a, np.ndarray))
        kernel(*(a[:count] if isinstance(a, np.ndarray) else a for a in args))

    return clipped


def _on_integers(kernel: Callable[..., object]) -> Callable[[AnyArray, AnyArray], None]:
    """What is left of a float function on an integer buffer; reported before it runs."""

    def run(a: AnyArray, out: AnyArray) -> None:
        wide = np.empty(out.shape, dtype=np.float64)
        kernel(a.astype(np.float64), wide)
        np.copyto(out, np.nan_to_num(wide), casting="unsafe")

    return run


@lowers(*_BINARY)
def lower_binary(stmt: ir.TileOp, context: LoweringContext) -> Instruction:
    """`op(dst, src0, src1)`; a scalar `src1` is a run-time number."""
    dst, first = (flat_view(o, stmt.loc) for o in stmt.operands[:2])
    second = stmt.operands[2]
    first = clamped(first, dst.count)
    check_dtype(stmt, dst, context)
    same_dtype(stmt, dst, first)
    cycles = cost.vector(dst.count * dst.itemsize, _PASSES.get(stmt.op, 1))
    if isinstance(second, ir.Expr):
        check_scalar(stmt, second, context)
        return Instruction(
            op=stmt.op,
            pipe="V",
            kernel=_SCALAR.get(stmt.op, _BINARY[stmt.op]),
            args=(first, typed_scalar(second, dst.buffer.dtype), dst),
            reads=(first,),
            writes=(dst,),
            cycles=cycles,
            arithmetic=cost.on_lanes(dst),
            taint=all_sources,
            scalar_barrier=isinstance(second, ir.Load),
        )
    other = clamped(flat_view(second, stmt.loc), dst.count)
    same_dtype(stmt, dst, other)
    return Instruction(
        op=stmt.op,
        pipe="V",
        kernel=_BINARY[stmt.op],
        args=(first, other, dst),
        reads=(first, other),
        writes=(dst,),
        cycles=cycles,
        arithmetic=cost.on_lanes(dst),
        taint=all_sources,
    )


@lowers(*_UNARY)
def lower_unary(stmt: ir.TileOp, context: LoweringContext) -> Instruction:
    """`op(dst, src)`."""
    dst = flat_view(stmt.operands[0], stmt.loc)
    src = clamped(flat_view(stmt.operands[1], stmt.loc), dst.count)
    check_dtype(stmt, dst, context)
    same_dtype(stmt, dst, src)
    kernel = _UNARY[stmt.op]
    if stmt.op in _FLOAT_ONLY and not is_float(dst.buffer.dtype):
        kernel = _on_integers(kernel)
    return Instruction(
        op=stmt.op,
        pipe="V",
        kernel=kernel,
        args=(src, dst),
        reads=(src,),
        writes=(dst,),
        cycles=cost.vector(dst.count * dst.itemsize, _PASSES.get(stmt.op, 1)),
        arithmetic=cost.on_lanes(dst),
        taint=all_sources,
    )


@lowers("leaky_relu", "axpy", "bitwise_lshift", "bitwise_rshift")
def lower_with_scalar(stmt: ir.TileOp, context: LoweringContext) -> Instruction:
    """`leaky_relu(dst, src, a)`, `axpy(dst, src, a)`: dst += a * src, and shifts by a scalar."""
    dst = flat_view(stmt.operands[0], stmt.loc)
    src = clamped(flat_view(stmt.operands[1], stmt.loc), dst.count)
    scalar = ir.as_expr(stmt.operands[2])  # type: ignore[arg-type]
    check_dtype(stmt, dst, context)
    if stmt.op not in _SHIFTS:
        scalar = typed_scalar(scalar, src.buffer.dtype)
    kernels: dict[str, Callable[..., object]] = {
        "leaky_relu": lambda a, s, out: np.copyto(out, np.where(a >= 0, a, a * a.dtype.type(s))),
        # The source may be half where the sum is float.
        "axpy": lambda a, s, out: np.add(out, a.astype(out.dtype) * out.dtype.type(s), out),
        **{n: (lambda a, s, out, f=f: f(a, int(s), out)) for n, f in _SHIFTS.items()},
    }
    reads = (src, dst) if stmt.op == "axpy" else (src,)
    return Instruction(
        op=stmt.op,
        pipe="V",
        kernel=kernels[stmt.op],
        args=(src, scalar, dst),
        reads=reads,
        writes=(dst,),
        cycles=cost.vector(dst.count * dst.itemsize, 2),
        arithmetic=cost.on_lanes(dst),
        taint=all_sources,
        scalar_barrier=isinstance(scalar, ir.Load),
    )


@lowers("mul_add_dst")
def lower_mul_add(stmt: ir.TileOp, context: LoweringContext) -> Instruction:
    """`mul_add_dst(dst, a, b)`: dst += a * b."""
    dst, a, b = (flat_view(o, stmt.loc) for o in stmt.operands)
    check_dtype(stmt, dst, context)
    return Instruction(
        op=stmt.op,
        pipe="V",
        kernel=lambda x, y, out: np.add(out, x.astype(out.dtype) * y.astype(out.dtype), out),
        args=(clamped(a, dst.count), clamped(b, dst.count), dst),
        reads=(a, b, dst),
        writes=(dst,),
        cycles=cost.vector(dst.count * dst.itemsize, 2),
        arithmetic=cost.on_lanes(dst),
        taint=all_sources,
    )


def check_scalar(stmt: ir.TileOp, scalar: ir.Expr, context: LoweringContext) -> None:
    """The compiler passes on only the first index of an element that serves as scalar operand."""
    if not isinstance(scalar, ir.Load) or scalar.buffer.scope in ("global", "var"):
        return
    if any(ir.as_expr(d).value != 1 for d in scalar.buffer.shape[1:]):  # type: ignore[attr-defined]
        context.note(
            "AI-BOUND-010",
            "error",
            f"{stmt.op} takes an element of {scalar.buffer.name}{list(scalar.buffer.shape)} as "
            "scalar; the compiler reads the element at its first index only; read it into a name "
            "first (`s = buffer[i, j]`)",
            stmt,
        )


def typed_scalar(scalar: ir.Expr, dtype: str) -> ir.Expr:
    """A scalar operand in the dtype of the tile that it meets, as in the generated code."""
    return scalar if scalar.dtype == dtype else ir.Cast(scalar, dtype)


def same_dtype(stmt: ir.TileOp, dst: View, src: View) -> None:
    """Refuse operands of two dtypes."""
    if dst.buffer.dtype != src.buffer.dtype:
        raise KernelSourceError(
            "AI-TYPE-002",
            f"{stmt.op}: {dst.buffer.name} is {dst.buffer.dtype}, "
            f"{src.buffer.name} is {src.buffer.dtype}",
            where=stmt.loc,
            rule="operands of a vector operation have one dtype; the compiler accepts a mix and "
            "reinterprets the bytes",
            fix="cast one operand with T.tile.cast first",
        )
