"""`T.Parallel` assignments that only move a tile are copies, where no core could do them otherwise.

`for i, j in T.Parallel(M, N): ub[i, j] = T.cast(l0c[i, j], "float16")` becomes `T.copy(l0c, ub)`
before anything else looks at it, as in the compiler; `l1[i, j] = A[row + i, col + j]` becomes a
copy of the *whole* L1 tile from `A[row, col]`, whatever the loop's extents and the indices on the
left are.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from kernels_npu.sim import ir
from kernels_npu.sim.passes.notes import Note
from kernels_npu.sim.passes.ownership import VIRTUAL_PATHS
from kernels_npu.sim.passes.parallel_lowering import lower_parallel
from kernels_npu.sim.passes.rewriting import Rewriter, static_int, with_children

Body = tuple[ir.Stmt, ...]


@dataclass(frozen=True, kw_only=True)
class MovedKernel:
    """A kernel whose moving loops are copies, and what is worth saying about them."""

    func: ir.PrimFunc
    notes: tuple[Note, ...] = ()


def moves_as_copies(func: ir.PrimFunc) -> MovedKernel:
    """`func` with such assignments replaced; scopes must be inferred."""
    notes: list[Note] = []

    def visit(body: Body) -> Body:
        out: list[ir.Stmt] = []
        for stmt in body:
            if not isinstance(stmt, ir.Parallel):
                out.append(with_children(stmt, visit))
                continue
            parts = _parts(stmt)
            out += parts
            for store, part in zip(stmt.body, parts):
                if isinstance(part, ir.TileOp) and not _is_whole(store, stmt):
                    notes.append(_rounded(store, stmt))
        same = len(out) == len(body) and all(new is old for new, old in zip(out, body))
        return body if same else tuple(out)

    body = visit(func.body)
    return MovedKernel(func=dataclasses.replace(func, body=body), notes=tuple(notes))


def _parts(loop: ir.Parallel) -> Body:
    """Copies and loops that together do what `loop` does, statement by statement."""
    if not any(_moves(stmt) for stmt in loop.body) or lower_parallel(loop) is None:
        return (loop,)
    parts: list[ir.Stmt] = []
    for stmt in loop.body:
        copy = _copy_of(stmt, loop)
        parts.append(copy or dataclasses.replace(loop, body=(stmt,)))
    return tuple(parts)


def _moves(stmt: ir.Stmt) -> bool:
    source = _source(stmt)
    if source is None or not isinstance(stmt, ir.Store):
        return False
    path = (source.buffer.scope, stmt.buffer.scope)
    return path in VIRTUAL_PATHS or (path == ("global", "l1") and stmt.value is source)


def _source(stmt: ir.Stmt) -> ir.Load | None:
    """What `stmt` assigns unchanged, apart from its dtype."""
    if not isinstance(stmt, ir.Store):
        return None
    value = stmt.value.a if isinstance(stmt.value, ir.Cast) else stmt.value
    return value if isinstance(value, ir.Load) else None


def _copy_of(stmt: ir.Stmt, loop: ir.Parallel) -> ir.TileOp | None:
    source = _source(stmt)
    if source is None or not isinstance(stmt, ir.Store) or not _moves(stmt):
        return None
    if source.buffer.scope != "global":
        whole = _is_whole(stmt, loop) and _is_whole(source, loop)
        operand: ir.Operand | None = source.buffer if whole else None
    else:
        operand = _tile_at(source, stmt.buffer, loop)
    if operand is None:
        return None
    return ir.TileOp(loc=stmt.loc, op="copy", operands=(operand, stmt.buffer))


def _is_whole(access: ir.Stmt | ir.Load, loop: ir.Parallel) -> bool:
    """Whether `loop` walks exactly through the buffer of `access`."""
    return (
        isinstance(access, (ir.Store, ir.Load))
        and len(access.indices) == len(loop.vars)
        and all(index is var for index, var in zip(access.indices, loop.vars))
        and tuple(map(static_int, access.buffer.shape)) == loop.extents
    )


def _tile_at(source: ir.Load, tile: ir.Buffer, loop: ir.Parallel) -> ir.Region:
    """The rectangle of `tile`'s size where `loop` begins to read."""
    origin = _Origin(loop.vars)
    ahead = len(source.indices) - len(tile.shape)
    extents = (*(ir.as_expr(1) for _ in range(ahead)), *map(ir.as_expr, tile.shape))
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


def _rounded(store: ir.Stmt, loop: ir.Parallel) -> Note:
    assert isinstance(store, ir.Store)
    shape = " x ".join(str(static_int(extent)) for extent in store.buffer.shape)
    loops = " x ".join(map(str, loop.extents))
    return Note(
        code="AI-MEM-027",
        severity="hint",
        message=f"this T.Parallel over {loops} loads all {shape} elements of the L1 tile "
        f"{store.buffer.name!r}; the compiler makes it one copy of the tile",
        loc=store.loc,
    )
