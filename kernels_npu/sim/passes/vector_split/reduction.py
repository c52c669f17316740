"""The automatic split of work over the two vector cores of a block (`T.Kernel(..., threads=2)`).

Vector core `vid` works on rows `[vid * rows / 2, (vid + 1) * rows / 2)` of every UB buffer that
`analysis` finds to be split:

  * such a buffer has half as many rows, and so has everything that takes all of its rows;
  * a loop over its rows runs half as often. Its variable stays the index of a core's own row
    there, and stands for the row of the whole tile everywhere else;
  * in a copy to or from global memory the row on that side moves by `vid` halves.

That is what the program means. Where the compiler is known to generate something else,
`divergence` says so.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

from kernels_npu.errors import KernelSourceError
from kernels_npu.sim import ir
from kernels_npu.sim.passes.rewriting import (
    Rewriter,
    element_count,
    operand_buffer,
    root_of,
    static_int,
)
from kernels_npu.sim.passes.vector_split.analysis import (
    CORES,
    RowLoop,
    VidSplit,
    analyse,
    half_of,
    is_ub,
    loop_of_index,
)
from kernels_npu.sim.passes.vector_split.moves import shifted

#: Operations that move a rectangle between a UB tile and global memory: position of the UB side.
_MOVES = {"copy": (0, 1), "atomic_add": (1, 0)}


@dataclass(frozen=True, kw_only=True)
class ReducedKernel:
    """A kernel after the split.

    func: the kernel; `func` itself when nothing is split automatically.
    split: what is split; None without `threads=2`.
    origins: id of each tile operation of the new body -> the user's operation.
    renumbered: statements that use the variable of a row loop for more than a core's own row.
    as_compiled: buffers that execute whole though the compiler halves them -> the halved buffer.
    """

    func: ir.PrimFunc
    split: VidSplit | None = None
    origins: Mapping[int, ir.TileOp] = field(default_factory=dict)
    renumbered: tuple[tuple[ir.Stmt, ir.Var], ...] = ()
    as_compiled: Mapping[ir.Buffer, ir.Buffer] = field(default_factory=dict)

    def gathers(self, buffer: ir.Buffer) -> bool:
        """Whether `buffer` is exempt from the split because it gathers."""
        return self.split is not None and root_of(buffer) in self.split.exempt


def reduce_vid(func: ir.PrimFunc) -> ReducedKernel:
    """Split `func`, whose scopes must be inferred, over the two vector cores of a block.

    Raises:
        KernelSourceError: AI-VID-001 when a UB tile has more dimensions than the tensor it is
            copied to or from.
    """
    if func.threads != CORES:
        return ReducedKernel(func=func)
    split = analyse(func)
    rewriter = _Split(func, split)
    reduced = rewriter.func(func)
    return ReducedKernel(
        func=reduced,
        split=split,
        origins=rewriter.origins,
        renumbered=tuple(rewriter.renumbered),
        as_compiled={b: half_of(b) for b in split.columns if static_int(b.shape[0]) != 1},
    )


class _Split(Rewriter):
    def __init__(self, func: ir.PrimFunc, split: VidSplit) -> None:
        self.vid = func.vid
        self.split = split
        self.origins: dict[int, ir.TileOp] = {}
        self.renumbered: list[tuple[ir.Stmt, ir.Var]] = []
        self._current: ir.Stmt | None = None
        self._halves: dict[ir.Buffer, ir.Buffer] = {}

    # ------------------------------------------------------------------ buffers and indices

    def buffer(self, old: ir.Buffer) -> ir.Buffer:
        if self.split.rows(old) is None:
            return old
        if old not in self._halves:
            half = half_of(old)
            if old.alias_of is not None:
                half = dataclasses.replace(half, alias_of=self.buffer(old.alias_of))
            self._halves[old] = half
        return self._halves[old]

    def expr(self, old: ir.Expr) -> ir.Expr:
        if isinstance(old, ir.Var) and old in self.split.loops:
            if self._current is not None:
                self.renumbered.append((self._current, old))
            return old + self._first_row(self.split.loops[old].half)
        if isinstance(old, ir.Load) and self.split.rows(old.buffer) is not None:
            row = self._own_row(old.indices[0], 1)
            rest = map(self.expr, old.indices[1:])
            return ir.Load(self.buffer(old.buffer), (row, *rest), old.dtype)
        return super().expr(old)

    def _first_row(self, half: int) -> ir.Expr:
        """The row of a tile with which this core's `half` rows begin."""
        return self.vid * half

    def _own_row(self, index: ir.Expr, extent: int) -> ir.Expr:
        """A first index: loops over rows count a core's own, anything else is rebuilt."""
        return index if loop_of_index(index, extent) in self.split.loops else self.expr(index)

    def operand(self, old: ir.Operand) -> ir.Operand:
        if not isinstance(old, ir.Region) or self.split.rows(old.buffer) is None:
            return super().operand(old)
        extent = static_int(old.extents[0]) or 1
        rows = extent if self._in_row_loop(old) else max(extent // CORES, 1)
        return ir.Region(
            self.buffer(old.buffer),
            (self._own_row(old.mins[0], extent), *map(self.expr, old.mins[1:])),
            (ir.as_expr(rows), *map(self.expr, old.extents[1:])),
        )

    def _in_row_loop(self, operand: ir.Operand) -> bool:
        """Whether a loop over rows picks what `operand` takes, rather than all rows."""
        if isinstance(operand, ir.Load):
            return loop_of_index(operand.indices[0], 1) in self.split.loops
        if not isinstance(operand, ir.Region):
            return False
        extent = static_int(operand.extents[0]) or 1
        return loop_of_index(operand.mins[0], extent) in self.split.loops

    # ------------------------------------------------------------------ statements

    def body(self, old: tuple[ir.Stmt, ...]) -> tuple[ir.Stmt, ...]:
        around = self._current
        new = super().body(old)
        self._current = around
        return new

    def statement(self, old: ir.Stmt) -> ir.Stmt:
        self._current = old
        if isinstance(old, ir.Store) and self.split.rows(old.buffer) is not None:
            return dataclasses.replace(
                old,
                buffer=self.buffer(old.buffer),
                indices=(self._own_row(old.indices[0], 1), *map(self.expr, old.indices[1:])),
                value=self.expr(old.value),
            )
        if isinstance(old, ir.Parallel):
            return dataclasses.replace(
                old,
                extents=tuple(
                    max(extent // CORES, 1) if var in self.split.loops else extent
                    for var, extent in zip(old.vars, old.extents)
                ),
                body=self.body(old.body),
            )
        if isinstance(old, ir.For) and old.var in self.split.loops:
            start, stop = self._own_iterations(old, self.split.loops[old.var])
            return dataclasses.replace(old, start=start, stop=stop, body=self.body(old.body))
        return super().statement(old)

    def _own_iterations(self, loop: ir.For, rows: RowLoop) -> tuple[ir.Expr, ir.Expr]:
        """This core's part of a loop over rows; a loop over some of the rows keeps its bounds."""
        start, stop = self.expr(loop.start), self.expr(loop.stop)
        if static_int(start) == 0 and static_int(stop) == rows.all:
            return start, ir.as_expr(rows.half)
        first = self._first_row(rows.half)
        return (
            ir.binary("max", start - first, 0),
            ir.binary("min", stop - first, rows.half),
        )

    def tile_op(self, old: ir.TileOp) -> ir.TileOp:
        new = super().tile_op(old)
        if old.op in _MOVES:
            new = self._move(old, new)
        else:
            new = self._portion(old, new)
        self.origins[id(new)] = old
        return new

    def _portion(self, old: ir.TileOp, new: ir.TileOp) -> ir.TileOp:
        """What else of an operation covers all rows: counts, real shapes, generated sequences."""
        operand = old.operands[0] if old.operands else None
        buffer = operand_buffer(operand) if operand is not None else None
        if operand is None or buffer is None or self.split.rows(buffer) is None:
            return new
        attrs = dict(new.attrs)
        whole, own = element_count(operand), element_count(new.operands[0])
        count = attrs.get("count")
        if whole != own and isinstance(count, ir.Expr | int) and static_int(count) == whole:
            attrs["count"] = own
        shape = attrs.get("real_shape")
        rows = static_int(buffer.shape[0])
        if whole != own and isinstance(shape, tuple) and shape and _is(shape[0], rows):
            attrs["real_shape"] = ((rows or 1) // CORES, *shape[1:])
        operands = list(new.operands)
        if whole != own and own is not None and old.op in ("createvecindex", "arith_progression"):
            step = operands[2] if len(operands) > 2 else ir.as_expr(1)
            if isinstance(operands[1], ir.Expr) and isinstance(step, ir.Expr):
                operands[1] = operands[1] + self._first_row(own) * step
        return dataclasses.replace(new, attrs=attrs, operands=tuple(operands))

    # ------------------------------------------------------------------ copies

    def _move(self, old: ir.TileOp, new: ir.TileOp) -> ir.TileOp:
        """Move the rows on the global side with those of the UB side."""
        operands = list(new.operands)
        for near, far in (_MOVES[old.op], _MOVES[old.op][::-1]):
            tile, tensor = (operand_buffer(old.operands[i]) for i in (near, far))
            if tile is None or tensor is None or not is_ub(tile) or tensor.scope != "global":
                continue
            rows = self.split.rows(tile)
            if rows is None or self._in_row_loop(old.operands[near]):
                continue  # each core has the whole tile, or the loop variable says which row
            if len(tile.shape) > len(tensor.shape):
                raise KernelSourceError(
                    "AI-VID-001",
                    f"{tile.name!r} has {len(tile.shape)} dimensions and {tensor.name!r} "
                    f"{len(tensor.shape)}",
                    where=old.loc,
                    rule="threads=2 moves the tensor's dimension that lies at the tile's first",
                    fix="give the UB buffer at most as many dimensions as the tensor",
                )
            operands[far] = shifted(operands[far], len(tile.shape), self._first_row(rows))
        return dataclasses.replace(new, operands=tuple(operands))


def _is(value: object, number: int | None) -> bool:
    return isinstance(value, (int, ir.Expr)) and static_int(value) == number
