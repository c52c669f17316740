"""What the compiler's last steps refuse although front end and machine could do it.

The generators write AscendC or PTO text: a function without a spelling there, or a dtype without a
name, ends the compilation. A `T.Parallel` that matches no vector pattern becomes scalar code,
so that its functions fail here as well.
"""

from __future__ import annotations

from collections.abc import Iterator

from kernels_npu.errors import KernelSourceError
from kernels_npu.sim import ir
from kernels_npu.sim.passes.notes import Note
from kernels_npu.sim.passes.parallel_lowering import lower_parallel
from kernels_npu.sim.passes.rewriting import operand_buffer, own_expressions, subexpressions
from kernels_npu.sim.scalar_ops import is_float

#: Functions of run-time scalars that the generators cannot spell.
_WITHOUT_SCALAR_FORM = frozenset(
    ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "tanh", "floor", "ceil", "round")
    + ("trunc", "pow")
)

#: Dtypes without a name in the generated copy.
_UNNAMED = frozenset(("float64", "bool"))

#: Memories that the operands of a matrix product must be in.
_PRODUCT_SCOPES = {"gemm_v0": ("l1", "l1", "l0c"), "mma": ("l0a", "l0b", "l0c")}


def check_device_code(func: ir.PrimFunc, target: str) -> tuple[Note, ...]:
    """Refuse what cannot be generated for `target`, and note what is generated into nothing.

    `func` has its scopes inferred.

    Raises:
        KernelSourceError: AI-SRC-046, AI-TYPE-009, AI-TYPE-002.
    """
    notes: list[Note] = []
    for stmt in _scalar_code(func.body):
        _refuse_functions(stmt)
        if isinstance(stmt, ir.TileOp):
            if stmt.op == "copy":
                _refuse_dtypes(stmt)
            if target == "pto" and stmt.op.startswith("reduce_"):
                _refuse_mixed_reduction(stmt)
            notes += _misplaced_operands(stmt)
    return tuple(notes)


def _scalar_code(body: tuple[ir.Stmt, ...]) -> Iterator[ir.Stmt]:
    """All statements but the bodies of vectorised `T.Parallel`s."""
    for stmt in body:
        yield stmt
        if isinstance(stmt, ir.Parallel) and lower_parallel(stmt) is not None:
            continue
        for nested in ir.children(stmt):
            yield from _scalar_code(nested)


def _refuse_functions(stmt: ir.Stmt) -> None:
    for expr in own_expressions(stmt):
        for part in subexpressions(expr):
            name = part.op if isinstance(part, (ir.Unary, ir.Binary)) else ""
            if name == "abs" and is_float(part.dtype):
                name = "fabs"
            elif name not in _WITHOUT_SCALAR_FORM:
                continue
            raise KernelSourceError(
                "AI-SRC-046",
                f"{name} of a run-time scalar",
                where=stmt.loc,
                rule="the device compiler has these functions as vector instructions only; a "
                "T.Parallel whose statement it cannot split into them becomes scalar code",
                fix="compute it with T.tile operations, or with one function of one element per "
                "T.Parallel statement",
            )


def _refuse_dtypes(copy: ir.TileOp) -> None:
    for operand in copy.operands[:2]:
        buffer = operand_buffer(operand)
        if buffer is not None and buffer.dtype in _UNNAMED:
            raise KernelSourceError(
                "AI-TYPE-009",
                f"T.copy moves {buffer.name}, which is {buffer.dtype}",
                where=copy.loc,
                rule="the device has no such type: no 64-bit floats, and bool tensors are uint8",
                fix="use float32 (or uint8 for bool)",
            )


def _refuse_mixed_reduction(reduction: ir.TileOp) -> None:
    source, out = (operand_buffer(operand) for operand in reduction.operands[:2])
    if source is not None and out is not None and source.dtype != out.dtype:
        raise KernelSourceError(
            "AI-TYPE-002",
            f"{reduction.op}: {source.name} is {source.dtype}, {out.name} is {out.dtype}",
            where=reduction.loc,
            rule="input and output of a reduction have one dtype",
            fix="reduce in the input's dtype and cast the result",
        )


def _misplaced_operands(product: ir.TileOp) -> Iterator[Note]:
    """The compiler gives a product to the core of its first operand, where it does nothing."""
    expected = _PRODUCT_SCOPES.get(product.op)
    if expected is None:
        return
    buffers = [operand_buffer(operand) for operand in product.operands[:3]]
    actual = tuple(buffer.scope if buffer is not None else "no memory" for buffer in buffers)
    if "ub" in actual:
        yield Note(
            code="AI-SRC-061",
            severity="error",
            message=f"{product.op}: operands are in {', '.join(actual)}; "
            f"they must be in {', '.join(expected)}",
            loc=product.loc,
        )
