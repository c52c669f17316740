"""Copies of statements with other variables and buffers in them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from kernels_npu.sim import ir
from kernels_npu.sim.passes.rewriting import with_children

Body = tuple[ir.Stmt, ...]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Slot:
    """One part of a larger tensor: `buffer[index]` has the shape of the buffer it stands for."""

    buffer: ir.Buffer
    index: ir.Expr


class Substitution:
    """Copies statements; `origin` learns which statement each copy was made from.

    A statement without anything to replace is copied all the same, so that one statement can stand
    in several places of a program.
    """

    def __init__(
        self,
        *,
        variables: Mapping[ir.Var, ir.Expr] | None = None,
        buffers: Mapping[ir.Buffer, ir.Buffer | Slot] | None = None,
        origin: dict[ir.Stmt, ir.Stmt] | None = None,
    ) -> None:
        self.variables = variables or {}
        self.buffers = buffers or {}
        self.origin = {} if origin is None else origin

    def body(self, old: Body) -> Body:
        """A copy of `old`."""
        return tuple(map(self.statement, old))

    def statement(self, old: ir.Stmt) -> ir.Stmt:
        """A copy of `old` and of what is nested in it."""
        new = self._copy(with_children(old, self.body))
        self.origin[new] = self.origin.get(old, old)
        return new

    def _copy(self, stmt: ir.Stmt) -> ir.Stmt:
        if isinstance(stmt, ir.TileOp):
            attrs = {name: self._attr(value) for name, value in stmt.attrs.items()}
            operands = tuple(map(self.operand, stmt.operands))
            return dataclasses.replace(stmt, operands=operands, attrs=attrs)
        if isinstance(stmt, ir.Store):
            target = self._element(stmt.buffer, stmt.indices)
            return dataclasses.replace(
                stmt, buffer=target[0], indices=target[1], value=self.expr(stmt.value)
            )
        changes: dict[str, Any] = {
            name: self.expr(getattr(stmt, name)) for name in _EXPRESSIONS.get(type(stmt), ())
        }
        return dataclasses.replace(stmt, **changes)

    def operand(self, old: ir.Operand) -> ir.Operand:
        """`old` with everything replaced."""
        if isinstance(old, ir.Buffer):
            new = self.buffers.get(old, old)
            if isinstance(new, ir.Buffer):
                return new
            return self._region(old, (ir.Const(0, "int32"),) * len(old.shape), _extents(old))
        if isinstance(old, ir.Region):
            return self._region(
                old.buffer, tuple(map(self.expr, old.mins)), tuple(map(self.expr, old.extents))
            )
        return self.expr(old)

    def expr(self, old: ir.Expr) -> ir.Expr:
        """`old` with everything replaced; constants are folded."""
        if isinstance(old, ir.Var):
            return self.variables.get(old, old)
        if isinstance(old, ir.Load):
            return ir.Load(*self._element(old.buffer, old.indices), old.dtype)
        rebuild = _REBUILD.get(type(old))
        return old if rebuild is None else rebuild(old, self.expr)

    def _region(
        self, buffer: ir.Buffer, mins: tuple[ir.Expr, ...], extents: tuple[ir.Expr, ...]
    ) -> ir.Region:
        new = self.buffers.get(buffer, buffer)
        if isinstance(new, ir.Buffer):
            return ir.Region(new, mins, extents)
        return ir.Region(new.buffer, (new.index, *mins), (ir.Const(1, "int32"), *extents))

    def _element(
        self, buffer: ir.Buffer, indices: tuple[ir.Expr, ...]
    ) -> tuple[ir.Buffer, tuple[ir.Expr, ...]]:
        places = tuple(map(self.expr, indices))
        new = self.buffers.get(buffer, buffer)
        return (new, places) if isinstance(new, ir.Buffer) else (new.buffer, (new.index, *places))

    def _attr(self, old: ir.Attr) -> ir.Attr:
        if isinstance(old, ir.Buffer):
            new = self.buffers.get(old, old)
            return new if isinstance(new, ir.Buffer) else new.buffer
        return self.expr(old) if isinstance(old, ir.Expr) else old


def _extents(buffer: ir.Buffer) -> tuple[ir.Expr, ...]:
    return tuple(ir.as_expr(extent) for extent in buffer.shape)


_Map = Callable[[ir.Expr], ir.Expr]


def _binary(old: ir.Expr, new: _Map) -> ir.Expr:
    assert isinstance(old, ir.Binary)
    a, b = new(old.a), new(old.b)
    if isinstance(a, ir.Const) and isinstance(b, ir.Const):
        return ir.binary(old.op, a, b)
    return ir.Binary(old.op, a, b, old.dtype)


def _unary(old: ir.Expr, new: _Map) -> ir.Expr:
    assert isinstance(old, ir.Unary)
    return ir.Unary(old.op, new(old.a), old.dtype)


def _converted(old: ir.Expr, new: _Map) -> ir.Expr:
    assert isinstance(old, (ir.Cast, ir.Reinterpret))
    return type(old)(new(old.a), old.dtype)


def _select(old: ir.Expr, new: _Map) -> ir.Expr:
    assert isinstance(old, ir.Select)
    return ir.Select(new(old.cond), new(old.a), new(old.b), old.dtype)


_REBUILD: Mapping[type[ir.Expr], Callable[[ir.Expr, _Map], ir.Expr]] = {
    ir.Binary: _binary,
    ir.Unary: _unary,
    ir.Cast: _converted,
    ir.Reinterpret: _converted,
    ir.Select: _select,
}

#: The fields of a statement that hold one expression each.
_EXPRESSIONS: Mapping[type[ir.Stmt], tuple[str, ...]] = {
    ir.Let: ("value",),
    ir.For: ("start", "stop"),
    ir.While: ("cond",),
    ir.If: ("cond",),
    ir.SetFlag: ("event_id",),
    ir.WaitFlag: ("event_id",),
    ir.SetCrossFlag: ("flag_id",),
    ir.WaitCrossFlag: ("flag_id",),
}
