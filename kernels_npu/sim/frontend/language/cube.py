"""Matrix products: `T.gemm_v0` from L1, `T.mma` from L0."""

from __future__ import annotations

from typing import Any

from kernels_npu.sim import ir
from kernels_npu.sim.frontend.affine import same_value, show
from kernels_npu.sim.frontend.diagnostics import fail
from kernels_npu.sim.frontend.language.operands import emit, scalar_operand, tile_operand
from kernels_npu.sim.frontend.language.shapes import shape_of
from kernels_npu.sim.frontend.values import BoundRegion, PendingOp

Matrix = ir.Buffer | ir.Region


def _matrix(name: str, param: str, value: Any) -> Matrix:
    matrix = tile_operand(name, param, value, allow_bound=True)
    if isinstance(matrix, BoundRegion):
        # The compiler follows the name to the buffer and forgets the slice.
        if show(matrix.extents) != show(matrix.buffer.shape):
            fail(
                "AI-SRC-019",
                f"T.{name}: {param} is a name bound to a part of {matrix.buffer.name}",
                rule="the compiler multiplies the whole buffer behind a bound slice",
                fix="write the slice in the call",
            )
        return matrix.buffer
    shape = shape_of(matrix)
    if len(shape) < 2 or any(n != 1 for n in shape[:-2]):
        fail(
            "AI-SRC-019",
            f"T.{name}: {param} has the shape {show(shape)}",
            rule="a matrix has two dimensions; leading ones must be 1",
            fix="slice one matrix: buf[i, :, :]",
        )
    return matrix


def _init(name: str, init: Any) -> ir.Attr:
    if isinstance(init, bool):
        return init
    expr = scalar_operand(name, "init", init)
    return bool(expr.value) if isinstance(expr, ir.Const) else expr


def gemm_v0(
    A: Any, B: Any, C: Any, transpose_A: bool = False, transpose_B: bool = False, init: Any = False
) -> PendingOp:
    """`C = (0 if init else C) + op(A) @ op(B)` with A and B in L1, C in L0C.

    Raises:
        KernelSourceError: AI-SRC-019 for wrong ranks or different K.
    """
    a, b, c = (_matrix("gemm_v0", n, v) for n, v in (("A", A), ("B", B), ("C", C)))
    shape_a, shape_b = shape_of(a), shape_of(b)
    _check_k(
        "gemm_v0",
        shape_a[-2] if transpose_A else shape_a[-1],
        shape_b[-1] if transpose_B else shape_b[-2],
    )
    attrs: dict[str, ir.Attr] = {
        "transpose_A": bool(transpose_A),
        "transpose_B": bool(transpose_B),
        "init": _init("gemm_v0", init),
    }
    return emit("gemm_v0", "gemm_v0", (a, b, c), attrs)


def mma(A: Any, B: Any, C: Any, init: Any = False) -> PendingOp:
    """`C = (0 if init else C) + A @ B` with A in L0A, B in L0B, C in L0C."""
    a, b, c = (_matrix("mma", n, v) for n, v in (("A", A), ("B", B), ("C", C)))
    _check_k("mma", shape_of(a)[-1], shape_of(b)[-2])
    return emit("mma", "mma", (a, b, c), {"init": _init("mma", init)})


def _check_k(name: str, k_a: ir.Expr | int, k_b: ir.Expr | int) -> None:
    if not same_value(k_a, k_b):
        fail(
            "AI-SRC-019",
            f"T.{name}: K shape check failed: K_A = {show(k_a)}, K_B = {show(k_b)}",
            rule="the inner extents of a product are equal",
            fix="check transpose_A / transpose_B and the tile shapes",
        )


def set_deq_scale(scale: Any) -> PendingOp:
    """Set the register that scales int32 to float16 conversions."""
    return emit(
        "set_deq_scale", "set_deq_scale", (scalar_operand("set_deq_scale", "scale", scale),), {}
    )
