"""Which values an index takes over all blocks, cores and iterations, and whether it takes them all.

An index that is a sum of loop variables with constant bounds takes both ends of its interval for
certain: each variable reaches its ends independently of the others. Anything else is only
enclosed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kernels_npu.sim import ir
from kernels_npu.sim.machine.intervals import Interval, interval
from kernels_npu.sim.machine.scalar_math import int_range
from kernels_npu.sim.scalar_ops import is_float

#: Whether a comparison can hold when the difference of its sides lies in [low, high].
_COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "lt": lambda low, high: low < 0,
    "le": lambda low, high: low <= 0,
    "gt": lambda low, high: high > 0,
    "ge": lambda low, high: high >= 0,
    "eq": lambda low, high: low <= 0 <= high,
    "ne": lambda low, high: (low, high) != (0, 0),
}
_NEGATED = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}


@dataclass(frozen=True)
class Span:
    """Least and greatest value; `reached` when both are taken in some execution."""

    low: int
    high: int
    reached: bool


@dataclass(frozen=True)
class _Sum:
    """`const + sum(coefficient * variable)`."""

    const: int
    terms: Mapping[int, int] = field(default_factory=dict)

    def plus(self, other: _Sum, sign: int = 1) -> _Sum:
        terms = dict(self.terms)
        for uid, factor in other.terms.items():
            terms[uid] = terms.get(uid, 0) + sign * factor
        return _Sum(self.const + sign * other.const, {u: c for u, c in terms.items() if c})

    def scaled(self, factor: int) -> _Sum:
        return _Sum(self.const * factor, {u: c * factor for u, c in self.terms.items() if factor})


@dataclass
class Ranges:
    """What is known of the variables in scope."""

    _spans: dict[int, Span] = field(default_factory=dict)
    _sums: dict[int, _Sum] = field(default_factory=dict)

    def bind(self, var: ir.Var, low: int, high: int, *, reached: bool) -> None:
        """`var` takes values from `low` to `high`."""
        self._spans[var.uid] = Span(low, high, reached)

    def let(self, var: ir.Var, value: ir.Expr) -> None:
        """`var` stands for `value`, as evaluated here."""
        total = None if is_float(value.dtype) else self._sum(value)
        if total is not None:
            self._sums[var.uid] = total
        elif not is_float(value.dtype):
            low, high = interval(value, self._interval)
            self._spans[var.uid] = Span(low, high, False)

    def span(self, expr: ir.Expr) -> Span:
        """The values of an integer expression."""
        total = self._sum(expr)
        if total is None:
            low, high = interval(expr, self._interval)
            return Span(low, high, False)
        return self._of_sum(total)

    def can_hold(self, condition: ir.Expr) -> bool:
        """Whether `condition` is true in some execution, as far as the intervals tell."""
        if isinstance(condition, ir.Const):
            return bool(condition.value)
        if isinstance(condition, ir.Unary) and condition.op == "not":
            return not self.must_hold(condition.a)
        if not isinstance(condition, ir.Binary):
            return True
        if condition.op == "and":
            return self.can_hold(condition.a) and self.can_hold(condition.b)
        if condition.op == "or":
            return self.can_hold(condition.a) or self.can_hold(condition.b)
        if condition.op not in _COMPARISONS or is_float(condition.a.dtype):
            return True
        difference = self.span(condition.a - condition.b)
        return _COMPARISONS[condition.op](difference.low, difference.high)

    def must_hold(self, condition: ir.Expr) -> bool:
        """Whether `condition` is true in every execution, as far as the intervals tell."""
        if isinstance(condition, ir.Const):
            return bool(condition.value)
        if isinstance(condition, ir.Binary) and condition.op in _NEGATED:
            return not self.can_hold(
                ir.Binary(_NEGATED[condition.op], condition.a, condition.b, "bool")
            )
        return False

    def _of_sum(self, total: _Sum) -> Span:
        low = high = total.const
        reached = True
        for uid, factor in total.terms.items():
            span = self._spans.get(uid)
            if span is None:
                return Span(*int_range("int64"), False)
            ends = (span.low * factor, span.high * factor)
            low, high = low + min(ends), high + max(ends)
            reached = reached and span.reached
        return Span(low, high, reached)

    def _interval(self, var: ir.Var) -> Interval:
        if var.uid in self._sums:
            span = self._of_sum(self._sums[var.uid])
            return span.low, span.high
        known = self._spans.get(var.uid)
        return (known.low, known.high) if known else int_range(var.dtype)

    def _sum(self, expr: ir.Expr) -> _Sum | None:
        """`expr` as a sum of variables whose spans are known; None when it is none."""
        if isinstance(expr, ir.Const) and not is_float(expr.dtype):
            return _Sum(int(expr.value))
        if isinstance(expr, ir.Var):
            if expr.uid in self._sums:
                return self._sums[expr.uid]
            return _Sum(0, {expr.uid: 1}) if expr.uid in self._spans else None
        if isinstance(expr, ir.Cast) and not is_float(expr.a.dtype) and not is_float(expr.dtype):
            return self._sum(expr.a)
        if not isinstance(expr, ir.Binary) or expr.op not in ("add", "sub", "mul"):
            return None
        a, b = self._sum(expr.a), self._sum(expr.b)
        if a is None or b is None:
            return None
        if expr.op != "mul":
            return a.plus(b, 1 if expr.op == "add" else -1)
        if not b.terms:
            return a.scaled(b.const)
        return None if a.terms else b.scaled(a.const)
