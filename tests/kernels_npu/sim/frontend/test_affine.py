"""Index arithmetic: simplification keeps values and folds what the compiler folds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kernels_npu.sim import ir
from kernels_npu.sim.frontend.affine import constant, difference, same_shape, same_value, simplify
from kernels_npu.sim.scalar_ops import fold_binary

X, Y = ir.Var("x"), ir.Var("y")


def value(expr: ir.Expr, x: int, y: int) -> int:
    if isinstance(expr, ir.Const):
        return int(expr.value)
    if isinstance(expr, ir.Var):
        return x if expr is X else y
    if isinstance(expr, ir.Unary):
        return -value(expr.a, x, y)
    assert isinstance(expr, ir.Binary)
    return int(fold_binary(expr.op, value(expr.a, x, y), value(expr.b, x, y), "int32"))


def _combine(children: st.SearchStrategy[ir.Expr]) -> st.SearchStrategy[ir.Expr]:
    two = st.tuples(children, children)
    divisor = st.integers(1, 8)
    return st.one_of(
        two.map(lambda t: t[0] + t[1]),
        two.map(lambda t: t[0] - t[1]),
        two.map(lambda t: t[0] * t[1]),
        children.map(lambda e: -e),
        st.tuples(children, divisor).map(lambda t: t[0] // t[1]),
        st.tuples(children, divisor).map(lambda t: t[0] % t[1]),
    )


leaves = st.one_of(st.sampled_from([X, Y]), st.integers(-6, 6).map(lambda n: ir.as_expr(n)))
expressions = st.recursive(leaves, _combine, max_leaves=8)
numbers = st.integers(-9, 9)


@given(expressions, numbers, numbers)
def test_simplify_keeps_the_value(expr, x, y):
    assert value(simplify(expr), x, y) == value(expr, x, y)


@given(expressions, st.integers(-50, 50), numbers, numbers)
def test_a_constant_difference_folds(expr, offset, x, y):
    assert constant(difference(expr + offset, expr)) == offset
    assert value(difference(expr * 2, expr), x, y) == value(expr, x, y)


def test_examples():
    assert constant(difference((X + 1) * 64, X * 64)) == 64
    start = X * 128 + Y * 128 // 2
    assert constant(difference(start + 64, start)) == 64
    assert constant(X) is None and constant(2.5) is None and constant(True) is None
    assert same_value(X + Y, Y + X) and not same_value(X, Y)
    assert same_shape((X, 4), (X, ir.as_expr(4))) and not same_shape((X,), (X, 1))
