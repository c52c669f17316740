"""Writes expressions of `T.Parallel` as NumPy text: loop variables are index arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from kernels_npu.sim import ir
from kernels_npu.sim.dtypes import numpy_dtype
from kernels_npu.sim.machine.expressions import ExpressionWriter, literal
from kernels_npu.sim.machine.intervals import Interval
from kernels_npu.sim.machine.parallel import mentions
from kernels_npu.sim.scalar_ops import is_float

_CALLS = {"min": "p_min", "max": "p_max", "and": "p_and", "or": "p_or", "pow": "p_pow"}
_COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
_SHIFTS = frozenset({"shl", "shr"})


class VectorWriter(ExpressionWriter):
    """Elementwise text. Loads are read through `load(node, guard)`.

    outer: the writer of the code around the loop, which knows its variables. grids: names of the
    index arrays by the loop variables' ids. constants: receives typed constants. emit: takes a
    line to run before the text. guard: name of the mask of the iterations for which the text
    matters, or None.
    """

    def __init__(
        self,
        load: Callable[[ir.Load, str | None], str],
        outer: ExpressionWriter,
        grids: Mapping[int, str],
        constants: dict[str, object],
        emit: Callable[[str], str],
        *,
        vector: bool,
    ) -> None:
        super().__init__(lambda node: load(node, self.guard), precise=outer.precise)
        self.guard: str | None = None
        self._outer = outer
        self._grids = grids
        self._constants = constants
        self._emit = emit
        self._vector = vector

        self.captured: dict[str, None] = {}

    def name_of(self, var: ir.Var) -> str:
        grid = self._grids.get(var.uid)
        if grid is not None:
            return grid
        name = self._outer.name_of(var)
        self.captured[name] = None
        return name

    def values_of_var(self, var: ir.Var) -> Interval:
        return self._intervals.get(var.uid) or self._outer.values_of_var(var)

    def text(self, expr: ir.Expr) -> str:
        if isinstance(expr, ir.Const):
            return self._constant(expr)
        if isinstance(expr, ir.Unary):
            return f"p_{expr.op}({self.text(expr.a)})"
        if isinstance(expr, ir.Select):
            return self._select(expr)
        if isinstance(expr, ir.Cast):
            return f"p_cast({self.text(expr.a)}, {self.kept(expr.dtype)!r})"
        if isinstance(expr, ir.Reinterpret):
            return f"p_view({self.text(expr.a)}, {expr.a.dtype!r}, {expr.dtype!r})"
        return super().text(expr)

    def index(self, expr: ir.Expr) -> str:
        """The text of an index, whose constants are plain numbers."""
        return literal(expr) if isinstance(expr, ir.Const) else self.text(expr)

    def _constant(self, expr: ir.Const) -> str:
        if expr.dtype in ("int32", "int64", "bool"):
            # Plain numbers adapt to index arrays; results are brought into their dtype when stored.
            return literal(expr)
        name = f"x{len(self._constants)}_{expr.dtype}"
        with np.errstate(all="ignore"):
            self._constants[name] = np.asarray(expr.value).astype(
                numpy_dtype(self.kept(expr.dtype))
            )[()]
        return name

    def _select(self, expr: ir.Select) -> str:
        cond = self._emit(f"p_both(None, {self.text(expr.cond)})")
        a = self._guarded(cond, expr.a, expr.dtype)
        b = self._guarded(f"~{cond}", expr.b, expr.dtype)
        return f"p_where({cond}, {a}, {b})"

    def _guarded(self, condition: str, expr: ir.Expr, dtype: str = "") -> str:
        outer = self.guard
        self.guard = self._emit(f"p_both({outer}, {condition})")
        text = self._operand(expr, dtype) if dtype else self.text(expr)
        self.guard = outer
        return text

    def _operand(self, expr: ir.Expr, dtype: str) -> str:
        """`expr` in the dtype in which the operation computes."""
        text = self.text(expr)
        plain = isinstance(expr, ir.Const) and expr.dtype in ("int32", "int64", "bool")
        if expr.dtype == dtype and not (plain or isinstance(expr, ir.Var)):
            return text
        if not is_float(dtype) and isinstance(expr, (ir.Const, ir.Var)):
            return text
        return f"p_cast({text}, {self.kept(dtype)!r})"

    def _binary(self, expr: ir.Binary) -> str:
        op = expr.op
        if op in ("and", "or"):
            first = self._emit(f"p_both(None, {self.text(expr.a)})")
            second = self._guarded(first if op == "and" else f"~{first}", expr.b)
            return f"{_CALLS[op]}({first}, {second})"
        if op in _COMPARISONS or op in _SHIFTS:
            return super()._binary(expr)
        a, b = (self._operand(e, expr.dtype) for e in (expr.a, expr.b))
        if op in _CALLS:
            return f"{_CALLS[op]}({a}, {b})"
        if op == "div":
            if self._vector and not mentions(expr.b, set(self._grids)):
                # The compiler multiplies by the reciprocal of a scalar divisor.
                return f"({a} * ({self._one(expr.dtype)} / {b}))"
            return f"({a} / {b})"
        if op in ("floordiv", "mod"):
            if is_float(expr.dtype):
                return f"p_floor({a} / {b})" if op == "floordiv" else f"p_mod({a}, {b})"
            return f"p_div({a}, {b})" if op == "floordiv" else f"p_mod({a}, {b})"
        return f"({a} {_OPERATORS[op]} {b})"

    def _one(self, dtype: str) -> str:
        return self._constant(ir.Const(1.0, dtype))

    def _rounded(self, text: str, expr: ir.Unary | ir.Binary) -> str:
        return text  # arrays have the dtype's width


_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "bitand": "&", "bitor": "|", "bitxor": "^"}
