"""Walking and rebuilding IR: a statement's expressions, an operand's buffer, substitution."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping

from kernels_npu.sim import ir

# --------------------------------------------------------------------------- reading


def subexpressions(expr: ir.Expr) -> Iterator[ir.Expr]:
    """`expr` and everything below it, parents first."""
    yield expr
    if isinstance(expr, ir.Binary):
        nested: tuple[ir.Expr, ...] = (expr.a, expr.b)
    elif isinstance(expr, (ir.Unary, ir.Cast, ir.Reinterpret)):
        nested = (expr.a,)
    elif isinstance(expr, ir.Select):
        nested = (expr.cond, expr.a, expr.b)
    elif isinstance(expr, ir.Load):
        nested = expr.indices
    else:
        nested = ()
    for child in nested:
        yield from subexpressions(child)


def own_expressions(stmt: ir.Stmt) -> tuple[ir.Expr, ...]:
    """The scalar expressions that `stmt` itself evaluates, nested statements excluded."""
    if isinstance(stmt, ir.Let):
        return (stmt.value,)
    if isinstance(stmt, ir.Store):
        return (*stmt.indices, stmt.value)
    if isinstance(stmt, ir.For):
        return (stmt.start, stmt.stop)
    if isinstance(stmt, (ir.While, ir.If)):
        return (stmt.cond,)
    if isinstance(stmt, (ir.SetFlag, ir.WaitFlag)):
        return (stmt.event_id,)
    if isinstance(stmt, (ir.SetCrossFlag, ir.WaitCrossFlag)):
        return (stmt.flag_id,)
    if isinstance(stmt, ir.TileOp):
        found: list[ir.Expr] = []
        for operand in stmt.operands:
            if isinstance(operand, ir.Expr):
                found.append(operand)
            elif isinstance(operand, ir.Region):
                found += [*operand.mins, *operand.extents]
        found += [value for value in stmt.attrs.values() if isinstance(value, ir.Expr)]
        return tuple(found)
    return ()


def loads(stmt: ir.Stmt) -> Iterator[ir.Load]:
    """Scalar reads of `stmt` itself, nested statements excluded."""
    for expr in own_expressions(stmt):
        for part in subexpressions(expr):
            if isinstance(part, ir.Load):
                yield part


def variables(stmt: ir.Stmt) -> Iterator[ir.Var]:
    """Names that `stmt` itself reads, nested statements excluded."""
    for expr in own_expressions(stmt):
        for part in subexpressions(expr):
            if isinstance(part, ir.Var):
                yield part


def operand_buffer(operand: ir.Operand) -> ir.Buffer | None:
    """The buffer that an operand addresses; None for a computed scalar."""
    if isinstance(operand, ir.Buffer):
        return operand
    if isinstance(operand, (ir.Region, ir.Load)):
        return operand.buffer
    return None


def root_of(buffer: ir.Buffer) -> ir.Buffer:
    """The allocation behind a chain of views."""
    while buffer.alias_of is not None:
        buffer = buffer.alias_of
    return buffer


def static_int(value: ir.Expr | int) -> int | None:
    """The value of a constant extent, None when it is known only at run time."""
    if isinstance(value, int):
        return value
    return int(value.value) if isinstance(value, ir.Const) else None


def constant_trips(loop: ir.For) -> int | None:
    """How often a loop runs, None when that is known only at run time."""
    start, stop = static_int(loop.start), static_int(loop.stop)
    return None if start is None or stop is None else max(0, stop - start)


def element_count(operand: ir.Operand) -> int | None:
    """Elements that an operand spans as a flat run; None when not constant, 1 for an element."""
    if isinstance(operand, ir.Buffer):
        extents: tuple[ir.Expr | int, ...] = operand.shape
    elif isinstance(operand, ir.Region):
        extents = operand.extents
    else:
        return 1
    total = 1
    for extent in extents:
        known = static_int(extent)
        if known is None:
            return None
        total *= known
    return total


# --------------------------------------------------------------------------- rebuilding


def with_children(
    stmt: ir.Stmt, visit: Callable[[tuple[ir.Stmt, ...]], tuple[ir.Stmt, ...]]
) -> ir.Stmt:
    """`stmt` with `visit` applied to each of its statement lists; `stmt` itself when unchanged."""
    if isinstance(stmt, ir.If):
        then, orelse = visit(stmt.then), visit(stmt.orelse)
        if then is stmt.then and orelse is stmt.orelse:
            return stmt
        return dataclasses.replace(stmt, then=then, orelse=orelse)
    if isinstance(stmt, (ir.For, ir.While, ir.Parallel, ir.CoreScope)):
        body = visit(stmt.body)
        return stmt if body is stmt.body else dataclasses.replace(stmt, body=body)
    return stmt


class Rewriter:
    """Rebuilds IR node by node; a subclass overrides the method of the kind it changes.

    Variables keep their identity; `buffer` is asked for every mention of a buffer.
    """

    def buffer(self, old: ir.Buffer) -> ir.Buffer:
        """What replaces `old`."""
        return old

    def expr(self, old: ir.Expr) -> ir.Expr:
        """`old` rebuilt."""
        if isinstance(old, ir.Load):
            return ir.Load(self.buffer(old.buffer), tuple(map(self.expr, old.indices)), old.dtype)
        if isinstance(old, ir.Binary):
            return ir.Binary(old.op, self.expr(old.a), self.expr(old.b), old.dtype)
        if isinstance(old, ir.Unary):
            return ir.Unary(old.op, self.expr(old.a), old.dtype)
        if isinstance(old, (ir.Cast, ir.Reinterpret)):
            return type(old)(self.expr(old.a), old.dtype)
        if isinstance(old, ir.Select):
            return ir.Select(self.expr(old.cond), self.expr(old.a), self.expr(old.b), old.dtype)
        return old

    def operand(self, old: ir.Operand) -> ir.Operand:
        """An operand of a tile operation rebuilt."""
        if isinstance(old, ir.Buffer):
            return self.buffer(old)
        if isinstance(old, ir.Region):
            return ir.Region(
                self.buffer(old.buffer),
                tuple(map(self.expr, old.mins)),
                tuple(map(self.expr, old.extents)),
            )
        return self.expr(old)

    def attr(self, old: ir.Attr) -> ir.Attr:
        """An attribute of a tile operation rebuilt."""
        if isinstance(old, ir.Expr):
            return self.expr(old)
        return self.buffer(old) if isinstance(old, ir.Buffer) else old

    def tile_op(self, old: ir.TileOp) -> ir.TileOp:
        """A tile operation rebuilt."""
        return dataclasses.replace(
            old,
            operands=tuple(map(self.operand, old.operands)),
            attrs={name: self.attr(value) for name, value in old.attrs.items()},
        )

    def statement(self, old: ir.Stmt) -> ir.Stmt:
        """A statement and what is nested in it rebuilt."""
        new = with_children(old, self.body)
        if isinstance(new, ir.Let):
            return dataclasses.replace(new, value=self.expr(new.value))
        if isinstance(new, ir.Store):
            return dataclasses.replace(
                new,
                buffer=self.buffer(new.buffer),
                indices=tuple(map(self.expr, new.indices)),
                value=self.expr(new.value),
            )
        if isinstance(new, ir.For):
            return dataclasses.replace(new, start=self.expr(new.start), stop=self.expr(new.stop))
        if isinstance(new, (ir.While, ir.If)):
            return dataclasses.replace(new, cond=self.expr(new.cond))
        if isinstance(new, (ir.SetFlag, ir.WaitFlag)):
            return dataclasses.replace(new, event_id=self.expr(new.event_id))
        if isinstance(new, (ir.SetCrossFlag, ir.WaitCrossFlag)):
            return dataclasses.replace(new, flag_id=self.expr(new.flag_id))
        if isinstance(new, ir.Debug):
            args = tuple(a if isinstance(a, str) else self.operand(a) for a in new.args)
            return dataclasses.replace(new, args=args)
        return self.tile_op(new) if isinstance(new, ir.TileOp) else new

    def body(self, old: tuple[ir.Stmt, ...]) -> tuple[ir.Stmt, ...]:
        """A statement list rebuilt."""
        return tuple(map(self.statement, old))

    def func(self, old: ir.PrimFunc) -> ir.PrimFunc:
        """A kernel with its allocations, annotations and body rebuilt."""
        return dataclasses.replace(
            old,
            allocs=tuple(map(self.buffer, old.allocs)),
            body=self.body(old.body),
            addresses={self.buffer(key): value for key, value in old.addresses.items()},
            layouts={self.buffer(key): value for key, value in old.layouts.items()},
        )


class _Substitution(Rewriter):
    """Replaces buffers; views of a replaced buffer follow it."""

    def __init__(self, mapping: Mapping[ir.Buffer, ir.Buffer]) -> None:
        self._replaced = dict(mapping)

    def buffer(self, old: ir.Buffer) -> ir.Buffer:
        if old not in self._replaced and old.alias_of is not None:
            base = self.buffer(old.alias_of)
            if base is not old.alias_of:
                self._replaced[old] = dataclasses.replace(old, alias_of=base, scope=base.scope)
        return self._replaced.get(old, old)


def substitute_buffers(func: ir.PrimFunc, mapping: Mapping[ir.Buffer, ir.Buffer]) -> ir.PrimFunc:
    """`func` with every buffer of `mapping` replaced; views of a replaced buffer follow it."""
    return _Substitution(mapping).func(func) if mapping else func
