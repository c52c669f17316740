"""`T.Kernel(threads=2)`: which UB buffers and which loops the two vector cores share out.

The compiler gives each vector core half of the first dimension of every UB buffer. Exempt are
buffers that gather: their copies name, on the other side, an element of a UB buffer as an index
(`T.copy(KV[idx[i], :], row)`). A loop whose variable is the first index of a halved buffer runs
over a core's own rows.

Two kinds of buffers cannot mean to be split though the compiler splits them: a first dimension of
one, and a 1-D vector that goes along the *columns* of 2-D tiles (a bias row).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kernels_npu.sim import ir
from kernels_npu.sim.passes.ownership import copy_scopes
from kernels_npu.sim.passes.rewriting import (
    element_count,
    operand_buffer,
    own_expressions,
    root_of,
    static_int,
    subexpressions,
)

CORES = 2


@dataclass(frozen=True, kw_only=True)
class RowLoop:
    """A loop over rows, one vector core's share of which is `half` iterations of `all`.

    `stmt` is a `For`, or a `Parallel` of which `var` is one variable.
    """

    stmt: ir.For | ir.Parallel
    var: ir.Var
    half: int
    all: int


@dataclass(frozen=True, kw_only=True)
class VidSplit:
    """The outcome of the analysis.

    halved: UB allocations that the compiler halves, in declaration order.
    exempt: UB allocations that it leaves whole because they gather.
    columns: of the halved, those that must stay whole for the program to mean what it says.
    loops: loops over rows by their variable.
    """

    halved: tuple[ir.Buffer, ...]
    exempt: frozenset[ir.Buffer]
    columns: frozenset[ir.Buffer]
    loops: Mapping[ir.Var, RowLoop]

    def rows(self, buffer: ir.Buffer) -> int | None:
        """A core's rows of `buffer` or of a view of it; None when each core has all of it."""
        root = root_of(buffer)
        if root not in self.halved or root in self.columns:
            return None
        return (static_int(buffer.shape[0]) or 1) // CORES


def half_of(buffer: ir.Buffer) -> ir.Buffer:
    """`buffer` with half of its rows, at least one."""
    rows = static_int(buffer.shape[0]) or 1
    return dataclasses.replace(buffer, shape=(max(rows // CORES, 1), *buffer.shape[1:]))


def is_ub(buffer: ir.Buffer) -> bool:
    """Whether `buffer` lives in UB."""
    return buffer.scope == "ub"


def row_index(operand: ir.Operand) -> tuple[ir.Expr, int] | None:
    """First index and extent of what `operand` takes of a buffer; None for all of it."""
    if isinstance(operand, ir.Load):
        return operand.indices[0], 1
    if isinstance(operand, ir.Region):
        extent = static_int(operand.extents[0])
        return None if extent is None else (operand.mins[0], extent)
    return None


def loop_of_index(index: ir.Expr, extent: int) -> ir.Var | None:
    """The variable `v` of an index `v` with extent 1, or `v * extent`: one step per iteration."""
    if isinstance(index, ir.Var):
        return index if extent == 1 else None
    if isinstance(index, ir.Binary) and index.op == "mul":
        for var, factor in ((index.a, index.b), (index.b, index.a)):
            if isinstance(var, ir.Var) and static_int(factor) == extent:
                return var
    return None


def accesses(stmt: ir.Stmt) -> Iterator[ir.Operand]:
    """Everything that `stmt` itself, without nested statements, takes of buffers."""
    if isinstance(stmt, ir.TileOp):
        yield from (o for o in stmt.operands if operand_buffer(o) is not None)
    elif isinstance(stmt, ir.Store):
        yield ir.Load(stmt.buffer, stmt.indices, stmt.buffer.dtype)
    for expr in own_expressions(stmt):
        for part in subexpressions(expr):
            if isinstance(part, ir.Load):
                yield part


def analyse(func: ir.PrimFunc) -> VidSplit:
    """The split of `func`, whose scopes must be inferred."""
    exempt = frozenset(_gathering(func))
    halved = tuple(
        b for b in func.allocs if is_ub(b) and b.alias_of is None and b not in exempt and b.shape
    )
    single = {b for b in halved if static_int(b.shape[0]) == 1}
    tiles = {b for b in halved if b not in single and len(b.shape) > 1}
    columns = single | _column_vectors(func, {b for b in halved if b not in single}, tiles)
    split = {b for b in halved if b not in columns}
    return VidSplit(
        halved=halved,
        exempt=exempt,
        columns=frozenset(columns),
        loops=_row_loops(func.body, split),
    )


def _gathering(func: ir.PrimFunc) -> Iterator[ir.Buffer]:
    for stmt in ir.walk(func.body):
        if not (isinstance(stmt, ir.TileOp) and stmt.op == "copy") or copy_scopes(stmt) is None:
            continue
        first, second = stmt.operands[:2]
        for own, other in ((first, second), (second, first)):
            buffer, far = operand_buffer(own), operand_buffer(other)
            if buffer is None or far is None or not is_ub(buffer) or is_ub(far):
                continue
            if any(isinstance(i, ir.Load) and is_ub(i.buffer) for i in indices(other)):
                yield root_of(buffer)


def indices(operand: ir.Operand) -> tuple[ir.Expr, ...]:
    """The first index of each dimension that `operand` names."""
    if isinstance(operand, ir.Load):
        return operand.indices
    return operand.mins if isinstance(operand, ir.Region) else ()


def _row_loops(body: tuple[ir.Stmt, ...], split: set[ir.Buffer]) -> dict[ir.Var, RowLoop]:
    """The loops of `body` over rows of buffers of `split`."""
    extents: dict[ir.Var, int] = {}
    for stmt in ir.walk(body):
        for access in accesses(stmt):
            buffer, index = operand_buffer(access), row_index(access)
            if buffer is None or index is None or root_of(buffer) not in split:
                continue
            var, rows = loop_of_index(*index), static_int(buffer.shape[0])
            if var is not None and rows is not None:
                extents.setdefault(var, rows // index[1])
    loops: dict[ir.Var, RowLoop] = {}
    for stmt in ir.walk(body):
        if isinstance(stmt, (ir.For, ir.Parallel)):
            for var in (stmt.var,) if isinstance(stmt, ir.For) else stmt.vars:
                if var in extents:
                    total = extents[var]
                    loops[var] = RowLoop(stmt=stmt, var=var, half=total // CORES, all=total)
    return loops


# --------------------------------------------------------------------------- column vectors


def _column_vectors(
    func: ir.PrimFunc, halved: set[ir.Buffer], tiles: set[ir.Buffer]
) -> set[ir.Buffer]:
    """The 1-D buffers of `halved` that are used along columns of `tiles` and never along rows."""
    vectors = {b for b in halved if len(b.shape) == 1}
    row_vars = set(_row_loops(func.body, tiles))
    along_rows: set[ir.Buffer] = set()
    along_columns: set[ir.Buffer] = set()
    together: list[set[ir.Buffer]] = []
    for stmt in ir.walk(func.body):
        found = {root_of(b) for a in accesses(stmt) if (b := operand_buffer(a)) is not None}
        here = found & vectors
        if not here:
            continue
        if isinstance(stmt, ir.TileOp):
            whole = {o for o in stmt.operands if isinstance(o, ir.Buffer) and root_of(o) in here}
            together.append({root_of(b) for b in whole})
            kind = _direction(stmt, tiles, halved)
            if kind is not None:
                (along_rows if kind == "rows" else along_columns).update(map(root_of, whole))
        by_index: dict[ir.Var, set[ir.Buffer]] = {}
        for access in accesses(stmt):
            if isinstance(access, ir.Load) and root_of(access.buffer) in here:
                if isinstance(access.indices[0], ir.Var):
                    by_index.setdefault(access.indices[0], set()).add(root_of(access.buffer))
        together += by_index.values()
        for var, buffers in by_index.items():
            if var in row_vars:
                along_rows |= buffers
            elif _runs_along_columns(var, stmt, tiles):
                along_columns |= buffers
    for kind_set in (along_rows, along_columns):
        _spread(kind_set, together)
    return along_columns - along_rows


def _direction(op: ir.TileOp, tiles: set[ir.Buffer], halved: set[ir.Buffer]) -> str | None:
    """How `op` lays its whole 1-D operands along its 2-D ones, when it says."""
    tiled = [o for o in op.operands if _root(o) in tiles]
    if op.op.startswith("reduce_") and tiled:
        return "columns" if op.attrs.get("dim") == 0 else "rows"
    if op.op == "broadcast" and tiled:
        return _broadcast_direction(op)
    if any(isinstance(o, ir.Region) and static_int(o.extents[0]) == 1 for o in tiled):
        return "columns"
    return None


def _broadcast_direction(op: ir.TileOp) -> str | None:
    axis = op.attrs.get("axis")
    if axis is None:
        destination = operand_buffer(op.operands[0])
        assert destination is not None
        axis = 0 if element_count(op.operands[1]) == static_int(destination.shape[-1]) else 1
    return "columns" if axis == 0 else "rows"


def _runs_along_columns(var: ir.Var, stmt: ir.Stmt, tiles: set[ir.Buffer]) -> bool:
    """Whether `var` is a later index of a tile in the same statement."""
    return any(
        isinstance(access, ir.Load)
        and root_of(access.buffer) in tiles
        and any(index is var for index in access.indices[1:])
        for access in accesses(stmt)
    )


def _root(operand: ir.Operand) -> ir.Buffer | None:
    buffer = operand_buffer(operand)
    return None if buffer is None else root_of(buffer)


def _spread(found: set[ir.Buffer], together: list[set[ir.Buffer]]) -> None:
    """What is an operand beside a member of `found` is one too."""
    size = -1
    while size != len(found):
        size = len(found)
        for group in together:
            if group & found:
                found |= group
