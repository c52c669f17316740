"""`T.Parallel`: every statement over its whole index space, as NumPy expressions.

Loop variables become index arrays; element reads become fancy indexing. A statement whose destination
does not use all loop variables carries values between iterations and cannot be vectorised.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kernels_npu.sim import ir
from kernels_npu.sim.dtypes import numpy_dtype
from kernels_npu.sim.machine.expressions import ExpressionWriter
from kernels_npu.sim.machine.instruction import AnyArray

_UNARY: dict[str, Callable[..., object]] = {
    "neg": np.negative,
    "not": np.logical_not,
    "bitnot": np.bitwise_not,
    "abs": np.abs,
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "trunc": np.trunc,
}


def _cast(value: AnyArray, dtype: str) -> AnyArray:
    target = numpy_dtype(dtype)
    if target.kind in "iu" and np.asarray(value).dtype.kind not in "iub":
        value = np.trunc(np.asarray(value, dtype=np.float64))
    return np.asarray(value).astype(target)


def _scatter(
    target: AnyArray, index: tuple[AnyArray, ...], value: AnyArray, mask: AnyArray | None
) -> None:
    if mask is None:
        target[index] = value
        return
    shape = np.broadcast_shapes(mask.shape, *(np.shape(i) for i in index))
    chosen = np.broadcast_to(mask, shape)
    where = tuple(np.broadcast_to(i, shape)[chosen] for i in index)
    target[where] = np.broadcast_to(value, shape)[chosen]


VECTOR_SERVICES: dict[str, object] = {
    **{f"pu_{name}": fn for name, fn in _UNARY.items()},
    "p_min": np.minimum,
    "p_max": np.maximum,
    "p_where": np.where,
    "p_and": np.logical_and,
    "p_or": np.logical_or,
    "p_cast": _cast,
    "p_scatter": _scatter,
}


class VectorWriter(ExpressionWriter):
    """Writes expressions whose loop variables are index arrays."""

    def _binary(self, expr: ir.Binary) -> str:
        functions = {"min": "p_min", "max": "p_max", "and": "p_and", "or": "p_or"}
        if expr.op in functions:
            return f"{functions[expr.op]}({self.text(expr.a)}, {self.text(expr.b)})"
        if expr.op == "div":
            return f"({self.text(expr.a)} / {self.text(expr.b)})"
        if expr.op in ("floordiv", "mod"):
            symbol = "//" if expr.op == "floordiv" else "%"
            return f"({self.text(expr.a)} {symbol} {self.text(expr.b)})"
        return super()._binary(expr)

    def text(self, expr: ir.Expr) -> str:
        if isinstance(expr, ir.Unary):
            return f"pu_{expr.op}({self.text(expr.a)})"
        if isinstance(expr, ir.Select):
            cond, a, b = (self.text(e) for e in (expr.cond, expr.a, expr.b))
            return f"p_where({cond}, {a}, {b})"
        if isinstance(expr, ir.Cast):
            return f"p_cast({self.text(expr.a)}, {expr.dtype!r})"
        return super().text(expr)


@dataclass(frozen=True)
class MaskedStore:
    """One assignment of a `T.Parallel` body with the conditions around it."""

    store: ir.Store
    conditions: tuple[ir.Expr, ...]


def flatten(
    body: tuple[ir.Stmt, ...], conditions: tuple[ir.Expr, ...] = ()
) -> list[MaskedStore] | None:
    """The assignments of a body; None when it holds anything but assignments and branches."""
    found: list[MaskedStore] = []
    for stmt in body:
        if isinstance(stmt, ir.Store):
            found.append(MaskedStore(stmt, conditions))
            continue
        if not isinstance(stmt, ir.If):
            return None
        for branch, extra in ((stmt.then, stmt.cond), (stmt.orelse, ir.unary("not", stmt.cond))):
            nested = flatten(branch, (*conditions, extra))
            if nested is None:
                return None
            found += nested
    return found


def variables(expr: ir.Expr) -> set[int]:
    """The ids of all variables in `expr`."""
    if isinstance(expr, ir.Var):
        return {expr.uid}
    if isinstance(expr, ir.Load):
        return set().union(*(variables(i) for i in expr.indices)) if expr.indices else set()
    if isinstance(expr, ir.Binary):
        return variables(expr.a) | variables(expr.b)
    if isinstance(expr, (ir.Unary, ir.Cast, ir.Reinterpret)):
        return variables(expr.a)
    if isinstance(expr, ir.Select):
        return variables(expr.cond) | variables(expr.a) | variables(expr.b)
    return set()


def vectorisable(loop: ir.Parallel) -> list[MaskedStore] | None:
    """The assignments of `loop` when each may run over the whole index space at once."""
    stores = flatten(loop.body)
    if stores is None:
        return None
    for item in stores:
        used = set().union(*(variables(i) for i in item.store.indices))
        if any(var.uid not in used for var in loop.vars):
            return None
    return stores


def as_serial(loop: ir.Parallel) -> tuple[ir.Stmt, ...]:
    """The loop nest that runs `loop` element by element."""
    body = loop.body
    for var, extent in zip(reversed(loop.vars), reversed(loop.extents)):
        body = (
            ir.For(
                loc=loop.loc,
                var=var,
                start=ir.Const(0, "int32"),
                stop=ir.Const(extent, "int32"),
                body=body,
            ),
        )
    return body
