"""What values an integer expression can take: enough to leave out most wrap-arounds and checks."""

from __future__ import annotations

from collections.abc import Callable

from kernels_npu.sim import ir
from kernels_npu.sim.machine.scalar_math import int_range
from kernels_npu.sim.scalar_ops import is_float, trunc_div

Interval = tuple[int, int]

#: Block ids: the launch takes at most this many blocks.
BLOCK_IDS: Interval = (0, 65535)
#: Extents of tensors.
EXTENTS: Interval = (0, 2**31 - 1)


def exact(expr: ir.Expr, of_var: Callable[[ir.Var], Interval]) -> Interval:
    """Least and greatest value before the result is brought into its dtype's range.

    `expr` is an integer or bool expression; `of_var` gives the interval of a variable.
    """
    if isinstance(expr, ir.Const):
        return int(expr.value), int(expr.value)
    if isinstance(expr, ir.Var):
        return of_var(expr)
    if expr.dtype == "bool" or isinstance(expr, (ir.Load, ir.Reinterpret)):
        return int_range(expr.dtype)
    if isinstance(expr, ir.Cast):
        return int_range(expr.dtype) if is_float(expr.a.dtype) else interval(expr.a, of_var)
    if isinstance(expr, ir.Select):
        (a, b), (c, d) = interval(expr.a, of_var), interval(expr.b, of_var)
        return min(a, c), max(b, d)
    if isinstance(expr, ir.Unary):
        low, high = interval(expr.a, of_var)
        if expr.op == "neg":
            return -high, -low
        if expr.op == "abs":
            return (0 if low <= 0 <= high else min(abs(low), abs(high))), max(abs(low), abs(high))
        if expr.op == "bitnot":
            return ~high, ~low
        return int_range(expr.dtype)
    if isinstance(expr, ir.Binary):
        return _binary(expr, interval(expr.a, of_var), interval(expr.b, of_var))
    return int_range(expr.dtype)


def interval(expr: ir.Expr, of_var: Callable[[ir.Var], Interval]) -> Interval:
    """Least and greatest value of `expr`, wrapped to its dtype if that can happen."""
    if is_float(expr.dtype):
        return int_range("int64")
    low, high = exact(expr, of_var)
    bottom, top = int_range(expr.dtype)
    return (low, high) if bottom <= low and high <= top else (bottom, top)


def _binary(expr: ir.Binary, a: Interval, b: Interval) -> Interval:
    op = expr.op
    if op == "add":
        return a[0] + b[0], a[1] + b[1]
    if op == "sub":
        return a[0] - b[1], a[1] - b[0]
    if op == "mul":
        corners = [x * y for x in a for y in b]
        return min(corners), max(corners)
    if op in ("min", "max"):
        choose = min if op == "min" else max
        return choose(a[0], b[0]), choose(a[1], b[1])
    if op in ("floordiv", "div") and b[0] > 0:
        corners = [trunc_div(x, y) for x in a for y in b]
        return min(corners), max(corners)
    if op == "mod" and b[0] > 0:
        reach = b[1] - 1
        return (0 if a[0] >= 0 else -reach), (0 if a[1] <= 0 else min(reach, max(a[1], 0)))
    if op == "shl" and b[0] >= 0 and b[1] < 64:
        corners = [x << y for x in a for y in b]
        return min(corners), max(corners)
    if op == "shr" and b[0] >= 0 and b[1] < 64:
        corners = [x >> y for x in a for y in b]
        return min(corners), max(corners)
    if op == "bitand" and (a[0] >= 0 or b[0] >= 0):
        return 0, min(x[1] for x in (a, b) if x[0] >= 0)
    if op == "shl":
        return int_range("int64")[0] * 2, int_range("int64")[1] * 2  # wraps
    return int_range(expr.dtype)
