"""Branches whose condition the ranges of loop variables decide; the compiler removes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from operator import is_

from kernels_npu.sim import ir
from kernels_npu.sim.passes.rewriting import static_int, with_children

Body = tuple[ir.Stmt, ...]

#: Least and greatest value.
Range = tuple[int, int]


def range_of_loop(loop: ir.For) -> Range | None:
    """The values of a loop's variable, when its bounds are constants."""
    start, stop = static_int(loop.start), static_int(loop.stop)
    return None if start is None or stop is None or stop <= start else (start, stop - 1)


def without_decided(body: Body, ranges: Mapping[ir.Var, Range]) -> Body:
    """`body` with every branch that is always or never taken resolved."""
    kept: list[ir.Stmt] = []
    for stmt in body:
        inner = dict(ranges)
        values = range_of_loop(stmt) if isinstance(stmt, ir.For) else None
        if isinstance(stmt, ir.For) and values is not None:
            inner[stmt.var] = values
        taken = decided(stmt.cond, ranges) if isinstance(stmt, ir.If) else None
        if isinstance(stmt, ir.If) and taken is not None:
            kept += without_decided(stmt.then if taken else stmt.orelse, ranges)
        else:
            kept.append(with_children(stmt, partial(without_decided, ranges=inner)))
    return body if len(kept) == len(body) and all(map(is_, kept, body)) else tuple(kept)


def decided(cond: ir.Expr, ranges: Mapping[ir.Var, Range]) -> bool | None:
    """The value of `cond` for all values in `ranges`; None when it depends on them."""
    if isinstance(cond, ir.Const):
        return bool(cond.value)
    if isinstance(cond, ir.Unary) and cond.op == "not":
        inner = decided(cond.a, ranges)
        return None if inner is None else not inner
    if not isinstance(cond, ir.Binary):
        return None
    if cond.op in ("and", "or"):
        sides = [decided(cond.a, ranges), decided(cond.b, ranges)]
        absorbing = cond.op == "or"
        if absorbing in sides:
            return absorbing
        return None if None in sides else not absorbing
    compare = _COMPARISONS.get(cond.op)
    a, b = (_range(expr, ranges) for expr in (cond.a, cond.b))
    return None if compare is None or a is None or b is None else compare(a, b)


def _less(a: Range, b: Range) -> bool | None:
    if a[1] < b[0]:
        return True
    return False if a[0] >= b[1] else None


def _equal(a: Range, b: Range) -> bool | None:
    if a[1] < b[0] or b[1] < a[0]:
        return False
    return True if a == b and a[0] == a[1] else None


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


_COMPARISONS: Mapping[str, Callable[[Range, Range], bool | None]] = {
    "lt": _less,
    "gt": lambda a, b: _less(b, a),
    "ge": lambda a, b: _not(_less(a, b)),
    "le": lambda a, b: _not(_less(b, a)),
    "eq": _equal,
    "ne": lambda a, b: _not(_equal(a, b)),
}


def _range(expr: ir.Expr, ranges: Mapping[ir.Var, Range]) -> Range | None:
    """Bounds of a sum, difference, or product with a constant."""
    value = static_int(expr)
    if value is not None:
        return value, value
    if isinstance(expr, ir.Var):
        return ranges.get(expr)
    if not isinstance(expr, ir.Binary):
        return None
    a, b = _range(expr.a, ranges), _range(expr.b, ranges)
    if a is None or b is None:
        return None
    if expr.op == "add":
        return a[0] + b[0], a[1] + b[1]
    if expr.op == "sub":
        return a[0] - b[1], a[1] - b[0]
    if expr.op == "mul":
        corners = [x * y for x in a for y in b]
        return min(corners), max(corners)
    return None
