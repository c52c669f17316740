"""Simplification of index arithmetic, enough to see that `(b + 1) * 64 - b * 64` is 64.

An integer expression is written as `constant + sum(coefficient * atom)`; atoms are compared by
structure, so that differences of slice bounds fold to constants wherever the compiler's analyzer
would fold them.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from kernels_npu.sim import ir
from kernels_npu.sim.scalar_ops import is_float


@dataclass(frozen=True)
class _Affine:
    """`const + sum(coefficient * atom)`; `terms` maps an atom's key to (coefficient, atom)."""

    const: int
    terms: dict[Hashable, tuple[int, ir.Expr]]

    def scaled(self, factor: int) -> _Affine:
        if factor == 0:
            return _Affine(0, {})
        terms = {key: (c * factor, atom) for key, (c, atom) in self.terms.items()}
        return _Affine(self.const * factor, terms)

    def plus(self, other: _Affine) -> _Affine:
        terms = dict(self.terms)
        for key, (coefficient, atom) in other.terms.items():
            total = coefficient + (terms[key][0] if key in terms else 0)
            if total:
                terms[key] = (total, atom)
            else:
                terms.pop(key, None)
        return _Affine(self.const + other.const, terms)

    def divided(self, divisor: int) -> _Affine | None:
        """The exact quotient, or None when a coefficient does not divide."""
        if self.const % divisor or any(c % divisor for c, _ in self.terms.values()):
            return None
        terms = {key: (c // divisor, atom) for key, (c, atom) in self.terms.items()}
        return _Affine(self.const // divisor, terms)

    def key(self) -> Hashable:
        return (self.const, frozenset((key, c) for key, (c, _) in self.terms.items()))


def _affine(expr: ir.Expr) -> _Affine:
    if isinstance(expr, ir.Const) and isinstance(expr.value, int):
        return _Affine(int(expr.value), {})
    if isinstance(expr, ir.Unary) and expr.op == "neg":
        return _affine(expr.a).scaled(-1)
    if isinstance(expr, ir.Binary) and not is_float(expr.dtype):
        folded = _affine_binary(expr)
        if folded is not None:
            return folded
    return _Affine(0, {_key(expr): (1, expr)})


def _affine_binary(expr: ir.Binary) -> _Affine | None:
    if expr.op not in ("add", "sub", "mul", "floordiv", "mod"):
        return None
    a, b = _affine(expr.a), _affine(expr.b)
    if expr.op == "add":
        return a.plus(b)
    if expr.op == "sub":
        return a.plus(b.scaled(-1))
    if expr.op == "mul":
        if not b.terms:
            return a.scaled(b.const)
        if not a.terms:
            return b.scaled(a.const)
        return None
    if b.terms or b.const <= 0:
        return None
    quotient = a.divided(b.const)
    if expr.op == "floordiv":
        return quotient
    return None if quotient is None else _Affine(0, {})


def _key(expr: ir.Expr) -> Hashable:
    """A hashable description of `expr`, equal for expressions of equal structure."""
    if isinstance(expr, ir.Const):
        return ("const", expr.dtype, expr.value)
    if isinstance(expr, ir.Var):
        return ("var", expr.uid)
    if isinstance(expr, ir.Binary):
        if not is_float(expr.dtype) and expr.op in ("add", "sub", "mul", "floordiv", "mod"):
            folded = _affine_binary(expr)
            if folded is not None:
                return folded.key()
        return (expr.op, _key(expr.a), _key(expr.b))
    if isinstance(expr, ir.Unary):
        return (expr.op, _key(expr.a))
    if isinstance(expr, (ir.Cast, ir.Reinterpret)):
        return (type(expr).__name__, expr.dtype, _key(expr.a))
    if isinstance(expr, ir.Select):
        return ("select", _key(expr.cond), _key(expr.a), _key(expr.b))
    if isinstance(expr, ir.Load):
        return ("load", expr.buffer.uid, tuple(_key(i) for i in expr.indices))
    return id(expr)


def simplify(expr: ir.Expr) -> ir.Expr:
    """`expr` with constants folded and cancelling terms removed; floats and bools unchanged."""
    if is_float(expr.dtype) or expr.dtype == "bool" or isinstance(expr, (ir.Const, ir.Var)):
        return expr
    form = _affine(expr)
    if not form.terms:
        return ir.Const(form.const, expr.dtype)
    result: ir.Expr | None = None
    for coefficient, atom in form.terms.values():
        term = atom if coefficient == 1 else atom * coefficient
        result = term if result is None else result + term
    assert result is not None
    return result if form.const == 0 else result + form.const


def difference(stop: ir.ScalarLike, start: ir.ScalarLike) -> ir.Expr:
    """`stop - start`, a `Const` whenever both differ by a constant."""
    return simplify(ir.binary("sub", stop, start))


def constant(value: object) -> int | None:
    """`value` as a Python int when it is one at compile time."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, ir.Expr) and value.dtype != "bool" and not is_float(value.dtype):
        folded = simplify(value)
        if isinstance(folded, ir.Const):
            return int(folded.value)
    return None


def same_value(a: ir.ScalarLike, b: ir.ScalarLike) -> bool:
    """Whether two sizes are equal as the compiler compares them: by structure."""
    left, right = constant(a), constant(b)
    if left is not None or right is not None:
        return left == right
    return _key(ir.as_expr(a)) == _key(ir.as_expr(b))


def same_shape(a: tuple[ir.ScalarLike, ...], b: tuple[ir.ScalarLike, ...]) -> bool:
    """Whether two shapes have the same rank and the same extents."""
    return len(a) == len(b) and all(same_value(x, y) for x, y in zip(a, b))


def show(value: object) -> str:
    """A size or shape as error messages print it."""
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(show(v) for v in value) + "]"
    number = constant(value)
    if number is not None:
        return str(number)
    return (
        value.name
        if isinstance(value, ir.Var)
        else "?"
        if isinstance(value, ir.Expr)
        else repr(value)
    )
