"""What the operands of a matrix product must be."""

from __future__ import annotations

from kernels_npu.errors import KernelSourceError
from kernels_npu.sim import ir
from kernels_npu.sim.machine.instruction import LoweringContext
from kernels_npu.sim.machine.operands import View

#: Rows and columns of the blocks in which L0C holds a matrix.
_FRACTAL = 16

_ACCUMULATORS = {
    "float16": "float32",
    "bfloat16": "float32",
    "float32": "float32",
    "int8": "int32",
    "float8_e4m3": "float32",
    "float8_e5m2": "float32",
}


def check_product(
    stmt: ir.TileOp,
    a: View,
    b: View,
    c: View,
    shapes: tuple[int, int, int, int],
    context: LoweringContext,
) -> None:
    """Sizes, dtypes and whole blocks of C = A @ B; `shapes` holds M, K, B's K, and N.

    A dtype that the chip cannot multiply is noted as an error.

    Raises:
        KernelSourceError: AI-SRC-059 for sizes, AI-TYPE-008 for dtypes.
    """
    m, k, k_b, n = shapes
    if k != k_b or (m, n) != (c.rows, c.cols):
        raise KernelSourceError(
            "AI-SRC-059",
            f"{stmt.op}: A is {m}x{k}, B is {k_b}x{n}, C is {c.rows}x{c.cols}",
            where=stmt.loc,
            rule="C[M, N] = A[M, K] @ B[K, N]",
            fix="check transpose_A, transpose_B and the buffer shapes",
        )
    if m % _FRACTAL or n % _FRACTAL or k % (32 // a.itemsize):
        context.note(
            "AI-BOUND-017",
            "warning",
            f"{stmt.op} of {m}x{k} by {k}x{n}: matrices lie in blocks of {_FRACTAL} rows by "
            f"32 bytes; the last blocks reach beyond {a.buffer.name}, {b.buffer.name} or "
            f"{c.buffer.name}",
            stmt,
        )
    expected = _ACCUMULATORS.get(a.buffer.dtype)
    if a.buffer.dtype != b.buffer.dtype or c.buffer.dtype != expected:
        raise KernelSourceError(
            "AI-TYPE-008",
            f"{stmt.op}: A is {a.buffer.dtype}, B is {b.buffer.dtype}, accumulator is "
            f"{c.buffer.dtype}",
            where=stmt.loc,
            rule="A and B have one dtype; fp16, bf16 and fp32 accumulate in float32, int8 in int32",
            fix="allocate the accumulator in L0C as float32 (int32 for int8 inputs)",
        )
    if a.buffer.dtype in context.soc.no_cube_products:
        context.note(
            "AI-TYPE-001",
            "error",
            f"the cube of {context.soc.name} has no {stmt.op} for {a.buffer.dtype} "
            f"({a.buffer.name}); cast to float16 first, or build for a chip that has it",
            stmt,
        )


def require_scopes(stmt: ir.TileOp, views: tuple[View, ...], scopes: tuple[str, ...]) -> None:
    """Raises KernelSourceError AI-SRC-061 when an operand is in another memory."""
    actual = tuple(v.buffer.scope for v in views)
    if actual != scopes:
        raise KernelSourceError(
            "AI-SRC-061",
            f"{stmt.op}: operands are in {', '.join(actual)}",
            where=stmt.loc,
            rule=f"operands of {stmt.op} are in {', '.join(scopes)}",
            fix="allocate A and B in L1 for gemm_v0 (L0A and L0B for mma) and C in L0C",
        )
