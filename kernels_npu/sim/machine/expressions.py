"""Scalar expressions as Python source text, with the device's arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from kernels_npu.sim import ir
from kernels_npu.sim.dtypes import HALF_PRECISION
from kernels_npu.sim.machine.intervals import Interval, exact, interval
from kernels_npu.sim.machine.scalar_math import EXACT_UNARY, int_range, round_to, wrap_int
from kernels_npu.sim.scalar_ops import is_float

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
#: Integer operations whose result may leave the dtype's range.
_WRAPPING = frozenset(
    {"add", "sub", "mul", "shl", "pow", "floordiv", "div", "neg", "bitnot", "abs"}
)
_FLOAT_FUNCTIONS = {"div": "fdiv", "floordiv": "ffloordiv", "mod": "fmod", "pow": "power"}


class ExpressionWriter:
    """Writes expressions for one core's program.

    load: returns the text that reads one buffer element. precise: values of half precision are kept
    in float32.
    """

    def __init__(self, load: Callable[[ir.Load], str], *, precise: bool = False) -> None:
        self._load = load
        self.precise = precise
        self._names: dict[int, str] = {}
        self._intervals: dict[int, Interval] = {}

    def bind(self, var: ir.Var, name: str, values: Interval | None = None) -> None:
        """Make `name` the Python name of `var`, whose values lie in `values`."""
        self._names[var.uid] = name
        if values is not None:
            self._intervals[var.uid] = values
        else:
            self._intervals.pop(var.uid, None)

    def knows(self, var: ir.Var) -> bool:
        """Whether `var` has a value where the program stands."""
        return var.uid in self._names

    def name_of(self, var: ir.Var) -> str:
        """The Python name of `var`."""
        name = self._names.get(var.uid)
        if name is None:
            raise KeyError(f"variable {var.name} is used where it is not defined")
        return name

    # ------------------------------------------------------------------ ranges

    def values_of_var(self, var: ir.Var) -> Interval:
        """Least and greatest value of an integer variable."""
        return self._intervals.get(var.uid) or int_range(var.dtype)

    def values(self, expr: ir.Expr) -> Interval:
        """Least and greatest value of an integer expression."""
        return interval(expr, self.values_of_var)

    def within(self, expr: ir.Expr, low: int, high: int) -> bool:
        """Whether the integer `expr` is provably in [low, high]."""
        first, last = self.values(expr)
        return low <= first and last <= high

    def _wraps(self, expr: ir.Expr) -> bool:
        low, high = exact(expr, self.values_of_var)
        bottom, top = int_range(expr.dtype)
        return low < bottom or high > top

    # ------------------------------------------------------------------ text

    def text(self, expr: ir.Expr) -> str:
        """Python source that evaluates `expr`."""
        if isinstance(expr, ir.Const):
            return literal(ir.Const(expr.value, self.kept(expr.dtype)))
        if isinstance(expr, ir.Var):
            return self.name_of(expr)
        if isinstance(expr, ir.Binary):
            return self._binary(expr)
        if isinstance(expr, ir.Unary):
            return self._rounded(f"u_{expr.op}({self.text(expr.a)})", expr)
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

    def kept(self, dtype: str) -> str:
        """The dtype to which values of `dtype` are rounded."""
        return "float32" if self.precise and dtype in HALF_PRECISION else dtype

    def address(self, indices: tuple[ir.Expr, ...], shape: tuple[ir.Expr | int, ...]) -> str:
        """The flat element offset of `indices`; addresses do not wrap."""
        text = ""
        for index, size in zip(indices, shape):
            if not text:
                text = self.text(index)
            else:
                text = f"({text} * {self.text(ir.as_expr(size))} + {self.text(index)})"
        return text or "0"

    def _rounded(self, text: str, expr: ir.Unary | ir.Binary) -> str:
        """`text` brought into the dtype of `expr`."""
        if is_float(expr.dtype):
            if expr.op in EXACT_UNARY or expr.dtype == "float64":
                return text
            return _round(text, self.kept(expr.dtype))
        if expr.op in _WRAPPING and expr.dtype != "bool" and self._wraps(expr):
            return _wrap(text, expr.dtype)
        return text

    def _binary(self, expr: ir.Binary) -> str:
        a, b = self.text(expr.a), self.text(expr.b)
        if expr.op in ("and", "or"):
            return f"bool({a} {expr.op} {b})"
        if expr.op in ("min", "max"):
            return f"{expr.op}({a}, {b})"
        if expr.dtype == "bool" and expr.op in _INFIX:
            return f"({a} {_INFIX[expr.op]} {b})"
        if is_float(expr.dtype) and expr.op in _FLOAT_FUNCTIONS:
            return self._rounded(f"{_FLOAT_FUNCTIONS[expr.op]}({a}, {b})", expr)
        if expr.op in _INFIX:
            return self._rounded(f"({a} {_INFIX[expr.op]} {b})", expr)
        if expr.op == "pow":
            return self._rounded(f"({a} ** {b})", expr)
        # C divides toward zero; Python's operators agree when nothing is negative.
        agrees = self.values(expr.a)[0] >= 0 and self.values(expr.b)[0] >= 0
        if expr.op == "mod":
            return f"({a} % {b})" if agrees else f"trunc_mod({a}, {b})"
        return self._rounded(f"({a} // {b})" if agrees else f"trunc_div({a}, {b})", expr)

    def _cast(self, expr: ir.Cast) -> str:
        text, source, target = self.text(expr.a), expr.a.dtype, expr.dtype
        if target == "bool":
            return f"bool({text})"
        if is_float(target):
            if is_float(source) and (source == target or _WIDTH[target] > _WIDTH[source]):
                return text
            small = not is_float(source) and self.within(expr.a, -(2**24), 2**24)
            if target == "float64" or (target == "float32" and small):
                return f"float({text})"
            return _round(text, self.kept(target))
        if is_float(source):
            return f"float_to_int({text}, {target!r})"
        return _wrap(text, target) if self._wraps(expr) else text


#: Float formats by what they can hold: a value moves to a greater one unchanged.
_WIDTH = {
    "float64": 3,
    "float32": 2,
    "float16": 1,
    "bfloat16": 1,
    "float8_e4m3": 0,
    "float8_e5m2": 0,
}


def _round(text: str, dtype: str) -> str:
    return f"float(single({text}))" if dtype == "float32" else f"round_to({text}, {dtype!r})"


def _wrap(text: str, dtype: str) -> str:
    low, high = int_range(dtype)
    mask = high - low
    return f"({text} & {mask})" if low == 0 else f"(({text} + {-low} & {mask}) - {-low})"


def literal(expr: ir.Const) -> str:
    """The text of a constant, rounded to its dtype."""
    value = expr.value
    if is_float(expr.dtype):
        number = float(value)
        if not math.isfinite(number):
            return "nan" if math.isnan(number) else ("inf" if number > 0 else "(-inf)")
        value = number if expr.dtype == "float64" else round_to(number, expr.dtype)
        if not math.isfinite(value):
            return "inf" if value > 0 else "(-inf)"
    elif not isinstance(value, bool) and expr.dtype != "bool":
        value = wrap_int(int(value), expr.dtype)  # constants are folded without a width
    return repr(value) if isinstance(value, bool) or value >= 0 else f"({value!r})"


def parts_of(expr: ir.Expr) -> Iterator[ir.Expr]:
    """The direct operands of `expr`."""
    if isinstance(expr, ir.Load):
        yield from expr.indices
    elif isinstance(expr, ir.Binary):
        yield expr.a
        yield expr.b
    elif isinstance(expr, (ir.Unary, ir.Cast, ir.Reinterpret)):
        yield expr.a
    elif isinstance(expr, ir.Select):
        yield from (expr.cond, expr.a, expr.b)


def loads_of(expr: ir.Expr) -> list[ir.Load]:
    """Buffer reads inside `expr`, innermost first."""
    found = [load for part in parts_of(expr) for load in loads_of(part)]
    return [*found, expr] if isinstance(expr, ir.Load) else found


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
