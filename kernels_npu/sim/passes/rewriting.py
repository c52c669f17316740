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

StmtMap = Callable[[ir.Stmt], "tuple[ir.Stmt, ...]"]


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


def substitute_buffers(func: ir.PrimFunc, mapping: Mapping[ir.Buffer, ir.Buffer]) -> ir.PrimFunc:
    """`func` with every buffer of `mapping` replaced; views of a replaced buffer follow it."""
    if not mapping:
        return func
    replaced = dict(mapping)

    def buffer(old: ir.Buffer) -> ir.Buffer:
        if old in replaced:
            return replaced[old]
        if old.alias_of is not None:
            base = buffer(old.alias_of)
            if base is not old.alias_of:
                replaced[old] = dataclasses.replace(old, alias_of=base, scope=base.scope)
                return replaced[old]
        return old

    def expr(old: ir.Expr) -> ir.Expr:
        if isinstance(old, ir.Load):
            return ir.Load(buffer(old.buffer), tuple(map(expr, old.indices)), old.dtype)
        if isinstance(old, ir.Binary):
            return ir.Binary(old.op, expr(old.a), expr(old.b), old.dtype)
        if isinstance(old, ir.Unary):
            return ir.Unary(old.op, expr(old.a), old.dtype)
        if isinstance(old, (ir.Cast, ir.Reinterpret)):
            return type(old)(expr(old.a), old.dtype)
        if isinstance(old, ir.Select):
            return ir.Select(expr(old.cond), expr(old.a), expr(old.b), old.dtype)
        return old

    def operand(old: ir.Operand) -> ir.Operand:
        if isinstance(old, ir.Buffer):
            return buffer(old)
        if isinstance(old, ir.Region):
            return ir.Region(
                buffer(old.buffer), tuple(map(expr, old.mins)), tuple(map(expr, old.extents))
            )
        return expr(old)

    def attr(old: ir.Attr) -> ir.Attr:
        if isinstance(old, ir.Expr):
            return expr(old)
        return buffer(old) if isinstance(old, ir.Buffer) else old

    def statement(old: ir.Stmt) -> ir.Stmt:
        new = with_children(old, body)
        if isinstance(new, ir.Let):
            return dataclasses.replace(new, value=expr(new.value))
        if isinstance(new, ir.Store):
            return dataclasses.replace(
                new,
                buffer=buffer(new.buffer),
                indices=tuple(map(expr, new.indices)),
                value=expr(new.value),
            )
        if isinstance(new, ir.For):
            return dataclasses.replace(new, start=expr(new.start), stop=expr(new.stop))
        if isinstance(new, (ir.While, ir.If)):
            return dataclasses.replace(new, cond=expr(new.cond))
        if isinstance(new, (ir.SetFlag, ir.WaitFlag)):
            return dataclasses.replace(new, event_id=expr(new.event_id))
        if isinstance(new, (ir.SetCrossFlag, ir.WaitCrossFlag)):
            return dataclasses.replace(new, flag_id=expr(new.flag_id))
        if isinstance(new, ir.TileOp):
            return dataclasses.replace(
                new,
                operands=tuple(map(operand, new.operands)),
                attrs={name: attr(value) for name, value in new.attrs.items()},
            )
        return new

    def body(old: tuple[ir.Stmt, ...]) -> tuple[ir.Stmt, ...]:
        return tuple(map(statement, old))

    return dataclasses.replace(
        func,
        allocs=tuple(map(buffer, func.allocs)),
        body=body(func.body),
        addresses={buffer(key): value for key, value in func.addresses.items()},
        layouts={buffer(key): value for key, value in func.layouts.items()},
    )
