"""Scalar expressions as Python source text, with the device's integer semantics."""

from __future__ import annotations

import math
from collections.abc import Callable

from kernels_npu.sim import ir
from kernels_npu.sim.scalar_ops import UNARY, is_float

_INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "shl": "<<",
    "shr": ">>",
    "bitand": "&",
    "bitor": "|",
    "bitxor": "^",
}

#: Names that generated code may use; the code generator puts them into its globals.
RUNTIME_NAMES = {f"u_{name}": fn for name, fn in UNARY.items()} | {"inf": math.inf, "nan": math.nan}


class ExpressionWriter:
    """Writes expressions for one core's program.

    load: returns the text that reads one buffer element.
    """

    def __init__(self, load: Callable[[ir.Load], str]) -> None:
        self._load = load
        self._names: dict[int, str] = {}
        self._non_negative: set[int] = set()
        self._outer: dict[int, str] = {}
        self._used: dict[str, None] = {}

    def bind(self, var: ir.Var, name: str, *, non_negative: bool) -> None:
        """Make `name` the Python name of `var`."""
        self._names[var.uid] = name
        if non_negative:
            self._non_negative.add(var.uid)
        else:
            self._non_negative.discard(var.uid)

    def bind_id(self, uid: int, name: str) -> None:
        """Make `name` the Python name of the variable with id `uid`."""
        self._names[uid] = name

    def adopt(self, other: ExpressionWriter, used: dict[str, None]) -> None:
        """Know the variables of `other`; names of those that get written are collected in `used`."""
        self._outer = other._names
        self._used = used

    def _name(self, var: ir.Var) -> str:
        name = self._names.get(var.uid)
        if name is None and var.uid in self._outer:
            name = self._outer[var.uid]
            self._used[name] = None
        if name is None:
            raise KeyError(f"variable {var.name} is used where it is not defined")
        return name

    def non_negative(self, expr: ir.Expr) -> bool:
        """Whether `expr` is an integer that is provably >= 0, so that C and Python division agree."""
        if isinstance(expr, ir.Const):
            return expr.value >= 0
        if isinstance(expr, ir.Var):
            return expr.uid in self._non_negative
        if isinstance(expr, ir.Binary):
            if expr.op in ("add", "mul", "floordiv", "mod", "min", "shr", "bitand"):
                return self.non_negative(expr.a) and self.non_negative(expr.b)
            if expr.op == "max":
                return self.non_negative(expr.a) or self.non_negative(expr.b)
            return expr.dtype == "bool"
        if isinstance(expr, ir.Select):
            return self.non_negative(expr.a) and self.non_negative(expr.b)
        return False

    def text(self, expr: ir.Expr) -> str:
        """Python source that evaluates `expr`."""
        if isinstance(expr, ir.Const):
            return _literal(expr.value)
        if isinstance(expr, ir.Var):
            return self._name(expr)
        if isinstance(expr, ir.Binary):
            return self._binary(expr)
        if isinstance(expr, ir.Unary):
            return f"u_{expr.op}({self.text(expr.a)})"
        if isinstance(expr, ir.Cast):
            return self._cast(expr)
        if isinstance(expr, ir.Reinterpret):
            return f"reinterpret({self.text(expr.a)}, {expr.a.dtype!r}, {expr.dtype!r})"
        if isinstance(expr, ir.Select):
            cond, a, b = (self.text(e) for e in (expr.cond, expr.a, expr.b))
            return f"({a} if {cond} else {b})"
        if isinstance(expr, ir.Load):
            return self._load(expr)
        raise TypeError(f"no code for {expr!r}")

    def _binary(self, expr: ir.Binary) -> str:
        a, b = self.text(expr.a), self.text(expr.b)
        if expr.op in _INFIX:
            return f"({a} {_INFIX[expr.op]} {b})"
        if expr.op in ("and", "or"):
            return f"bool({a} {expr.op} {b})"
        if expr.op in ("min", "max"):
            return f"{expr.op}({a}, {b})"
        if expr.op == "pow":
            return f"({a} ** {b})"
        if is_float(expr.dtype):
            return {"div": "fdiv", "floordiv": "ffloordiv", "mod": "fmod"}[expr.op] + f"({a}, {b})"
        exact = self.non_negative(expr.a) and self.non_negative(expr.b)
        if expr.op == "mod":
            return f"({a} % {b})" if exact else f"trunc_mod({a}, {b})"
        return f"({a} // {b})" if exact else f"trunc_div({a}, {b})"

    def _cast(self, expr: ir.Cast) -> str:
        text = self.text(expr.a)
        if expr.dtype in ("float32", "float64") and is_float(expr.a.dtype):
            return text
        if is_float(expr.dtype):
            return (
                f"float({text})" if expr.dtype == "float32" else f"round_to({text}, {expr.dtype!r})"
            )
        if expr.dtype == "bool":
            return f"bool({text})"
        if expr.dtype == "int64" or (expr.dtype == "int32" and not is_float(expr.a.dtype)):
            return f"int({text})"
        return f"wrap_int({text}, {expr.dtype!r})"


def _literal(value: bool | int | float) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "(-inf)")
    return repr(value) if isinstance(value, bool) or value >= 0 else f"({value!r})"


def loads_of(expr: ir.Expr) -> list[ir.Load]:
    """Buffer reads inside `expr`, innermost first."""
    if isinstance(expr, ir.Load):
        return [load for i in expr.indices for load in loads_of(i)] + [expr]
    if isinstance(expr, ir.Binary):
        return loads_of(expr.a) + loads_of(expr.b)
    if isinstance(expr, (ir.Unary, ir.Cast, ir.Reinterpret)):
        return loads_of(expr.a)
    if isinstance(expr, ir.Select):
        return loads_of(expr.cond) + loads_of(expr.a) + loads_of(expr.b)
    return []


def multiple_of(expr: ir.Expr, factor: int) -> bool:
    """Whether `expr` is provably a multiple of `factor`."""
    if factor <= 1:
        return True
    if isinstance(expr, ir.Const):
        return int(expr.value) % factor == 0
    if isinstance(expr, ir.Binary):
        if expr.op in ("add", "sub"):
            return multiple_of(expr.a, factor) and multiple_of(expr.b, factor)
        if expr.op == "mul":
            return multiple_of(expr.a, factor) or multiple_of(expr.b, factor)
    return False
