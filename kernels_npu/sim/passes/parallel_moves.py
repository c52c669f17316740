"""`T.Parallel` assignments that only move a tile are copies, where no core could do them otherwise.

`for i, j in T.Parallel(M, N): ub[i, j] = T.cast(l0c[i, j], "float16")` becomes `T.copy(l0c, ub)`
before anything else looks at it, as in the compiler; `l1[i, j] = A[row + i, col + j]` becomes a
copy of the *whole* L1 tile from `A[row, col]`, whatever the loop's extents and the indices on the
left are; `C[row + i, col + j] = l0c[i, j]` *without a cast* goes through a hidden tile in UB.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from kernels_npu.sim import ir
from kernels_npu.sim.passes.notes import Note
from kernels_npu.sim.passes.parallel_lowering import lower_parallel
from kernels_npu.sim.passes.rewriting import Rewriter, static_int, with_children
from kernels_npu.sim.passes.vector_split.compiler import is_term

Body = tuple[ir.Stmt, ...]


@dataclass(frozen=True, kw_only=True)
class MovedKernel:
    """A kernel whose moving loops are copies, and what is worth saying about them.

    Hidden tiles in UB are the last of `func.allocs`.
    """

    func: ir.PrimFunc
    notes: tuple[Note, ...] = ()


def moves_as_copies(func: ir.PrimFunc) -> MovedKernel:
    """`func` with such assignments replaced; scopes must be inferred."""
    notes: list[Note] = []
    hidden: list[ir.Buffer] = []

    def visit(body: Body) -> Body:
        out: list[ir.Stmt] = []
        for stmt in body:
            if not isinstance(stmt, ir.Parallel):
                out.append(with_children(stmt, visit))
                continue
            for part in _parts(stmt):
                copies = _copies_of(part, len(hidden))
                hidden.extend(b for c in copies for b in c.operands[1:] if _is_hidden(b))
                notes.extend(_rounded(part) if len(copies) == 1 else _staged(part, copies))
                out += copies or (part,)
        same = len(out) == len(body) and all(new is old for new, old in zip(out, body))
        return body if same else tuple(out)

    body = visit(func.body)
    if body is func.body:
        return MovedKernel(func=func)
    return MovedKernel(
        func=dataclasses.replace(func, body=body, allocs=(*func.allocs, *hidden)),
        notes=tuple(notes),
    )


def _parts(loop: ir.Parallel) -> tuple[ir.Parallel, ...]:
    """`loop` statement by statement where one of them moves a tile, `loop` itself otherwise."""
    if not any(_path(stmt) for stmt in loop.body) or lower_parallel(loop) is None:
        return (loop,)
    return tuple(dataclasses.replace(loop, body=(stmt,)) for stmt in loop.body)


def _path(stmt: ir.Stmt) -> tuple[str, str] | None:
    """(source, destination) scope of an assignment that no element access can make."""
    source = _source(stmt)
    if source is None or not isinstance(stmt, ir.Store):
        return None
    path = (source.buffer.scope, stmt.buffer.scope)
    if stmt.value is not source and path in (("l0c", "global"), ("global", "l1")):
        return None
    return path if any(scope in _CUBE_SCOPES for scope in path) else None


_CUBE_SCOPES = frozenset({"l1", "l0a", "l0b", "l0c"})


def _source(stmt: ir.Stmt) -> ir.Load | None:
    """What `stmt` assigns unchanged, apart from its dtype."""
    if not isinstance(stmt, ir.Store):
        return None
    value = stmt.value.a if isinstance(stmt.value, ir.Cast) else stmt.value
    return value if isinstance(value, ir.Load) else None


def _copies_of(loop: ir.Parallel, number: int) -> tuple[ir.TileOp, ...]:
    """The copies that do what `loop` with one assignment does; none when it stays a loop."""
    (store,) = loop.body if len(loop.body) == 1 else (None,)
    if not isinstance(store, ir.Store) or (path := _path(store)) is None:
        return ()
    source, target = _source(store), store.buffer
    assert source is not None
    if path[0] == "global":
        tile = _tile_at(source, target.shape, loop)
        return (_copy(store, tile, target),)
    if not _is_whole(source, loop):
        return ()
    if path[1] != "global":
        return (_copy(store, source.buffer, target),) if _is_whole(store, loop) else ()
    if len(target.shape) != 2 or not all(map(is_term, store.indices, loop.vars)):
        return ()
    hidden = ir.Buffer(f"{target.name}_tmp_{number}", "ub", loop.extents, target.dtype, store.loc)
    place = _tile_at(ir.Load(target, store.indices, target.dtype), loop.extents, loop)
    return (_copy(store, source.buffer, hidden), _copy(store, hidden, place))


def _copy(store: ir.Store, source: ir.Operand, target: ir.Operand) -> ir.TileOp:
    return ir.TileOp(loc=store.loc, op="copy", operands=(source, target))


def _is_hidden(operand: ir.Operand) -> TypeGuard[ir.Buffer]:
    return isinstance(operand, ir.Buffer) and "_tmp_" in operand.name and operand.scope == "ub"


def _is_whole(access: ir.Stmt | ir.Load, loop: ir.Parallel) -> bool:
    """Whether `loop` walks exactly through the buffer of `access`."""
    return (
        isinstance(access, (ir.Store, ir.Load))
        and len(access.indices) == len(loop.vars)
        and all(index is var for index, var in zip(access.indices, loop.vars))
        and tuple(map(static_int, access.buffer.shape)) == loop.extents
    )


def _tile_at(source: ir.Load, shape: Sequence[ir.Expr | int], loop: ir.Parallel) -> ir.Region:
    """The rectangle of a tile's `shape` where `loop` begins."""
    origin = _Origin(loop.vars)
    ahead = len(source.indices) - len(shape)
    extents = (*(ir.as_expr(1) for _ in range(ahead)), *map(ir.as_expr, shape))
    return ir.Region(source.buffer, tuple(map(origin.expr, source.indices)), extents)


class _Origin(Rewriter):
    """Expressions where all of some variables are 0."""

    def __init__(self, variables: tuple[ir.Var, ...]) -> None:
        self._variables = {var.uid for var in variables}

    def expr(self, old: ir.Expr) -> ir.Expr:
        if isinstance(old, ir.Var) and old.uid in self._variables:
            return ir.Const(0, old.dtype)
        if isinstance(old, ir.Binary):
            return ir.binary(old.op, self.expr(old.a), self.expr(old.b))
        return super().expr(old)


def _rounded(loop: ir.Parallel) -> Iterator[Note]:
    store = loop.body[0]
    assert isinstance(store, ir.Store)
    if _is_whole(store, loop):
        return
    shape = " x ".join(str(static_int(extent)) for extent in store.buffer.shape)
    loops = " x ".join(map(str, loop.extents))
    yield Note(
        code="AI-MEM-027",
        severity="hint",
        message=f"this T.Parallel over {loops} loads all {shape} elements of the L1 tile "
        f"{store.buffer.name!r}; the compiler makes it one copy of the tile",
        loc=store.loc,
    )


def _staged(loop: ir.Parallel, copies: tuple[ir.TileOp, ...]) -> Iterator[Note]:
    if copies:
        yield Note(
            code="AI-MEM-028",
            severity="hint",
            message="without a cast this T.Parallel goes from L0C through an automatic workspace "
            "and a hidden tile in UB to the tensor, so that the vector cores store it",
            loc=loop.body[0].loc,
        )
