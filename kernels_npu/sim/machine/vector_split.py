"""Which statements both vector cores of a block execute alike.

A kernel splits work between its two vector cores by `vid`. What does not depend on it, neither by
its operands nor by the control flow around it, is executed by both with the same values: storing
the same bytes to the same place twice is harmless.

A buffer that is filled or loaded whole no longer depends on what it held. A load that the border of
its tensor clips is taken for a whole one: what it leaves in the buffer is not followed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from kernels_npu.sim import ir
from kernels_npu.sim.passes.rewriting import loads, operand_buffer, root_of, static_int, variables


def same_on_both_cores(body: tuple[ir.Stmt, ...], vid: ir.Var) -> frozenset[int]:
    """Ids of the leaf statements of a vector program that do not depend on `vid`.

    Global memory is one for both cores, so what is read from it at equal addresses is equal.
    """
    analysis = _Analysis()
    analysis.follow(body, _Split({vid.uid}, set()), dependent=False)
    return frozenset(analysis.leaves - analysis.dependent)


@dataclass
class _Split:
    """What differs between the cores at some point: variables and on-chip buffers, by uid."""

    variables: set[int]
    buffers: set[int]

    def copy(self) -> _Split:
        return _Split(set(self.variables), set(self.buffers))

    def join(self, other: _Split) -> None:
        self.variables |= other.variables
        self.buffers |= other.buffers


class _Analysis:
    """Follows the program; a statement that is reached again must be independent each time."""

    def __init__(self) -> None:
        self.leaves: set[int] = set()
        self.dependent: set[int] = set()

    def follow(self, body: tuple[ir.Stmt, ...], split: _Split, *, dependent: bool) -> None:
        """Change `split` to what differs after `body`."""
        for stmt in body:
            inside = dependent or _depends(stmt, split)
            if inside:
                _spread(stmt, split)
            nested = ir.children(stmt)
            if nested:
                self._repeat(nested, split, dependent=inside)
                continue
            self.leaves.add(id(stmt))
            if inside:
                self.dependent.add(id(stmt))
            else:
                split.buffers.difference_update(_replaced(stmt))

    def _repeat(
        self, bodies: tuple[tuple[ir.Stmt, ...], ...], split: _Split, *, dependent: bool
    ) -> None:
        """Any of `bodies`, any number of times."""
        while True:
            before = split.copy()
            for body in bodies:
                after = before.copy()
                self.follow(body, after, dependent=dependent)
                split.join(after)
            if split == before:
                return


def _depends(stmt: ir.Stmt, split: _Split) -> bool:
    replaced = set(_replaced(stmt))
    read = [*(load.buffer for load in loads(stmt)), *_operands(stmt)]
    return any(var.uid in split.variables for var in variables(stmt)) or any(
        uid in split.buffers and uid not in replaced for uid in (root_of(b).uid for b in read)
    )


def _spread(stmt: ir.Stmt, split: _Split) -> None:
    """What a dependent statement sets depends on `vid` as well."""
    if isinstance(stmt, (ir.Let, ir.For)):
        split.variables.add(stmt.var.uid)
    written = [stmt.buffer] if isinstance(stmt, ir.Store) else _written(stmt)
    split.buffers.update(root_of(b).uid for b in written if b.scope != "global")


def _replaced(stmt: ir.Stmt) -> Iterator[int]:
    """The buffer, by uid, all of whose old content a statement replaces."""
    if not isinstance(stmt, ir.TileOp) or stmt.op not in ("copy", "fill"):
        return
    target = stmt.operands[_DESTINATION.get(stmt.op, 0)]
    if not isinstance(target, ir.Buffer) or target.alias_of is not None:
        return
    source = stmt.operands[0]
    if stmt.op == "copy" and not isinstance(source, ir.Load):
        box = source.extents if isinstance(source, ir.Region) else source.shape  # type: ignore[union-attr]
        sizes = [[static_int(size) for size in shape] for shape in (box, target.shape)]
        if None in sizes[0] or None in sizes[1] or prod(sizes[0]) != prod(sizes[1]):  # type: ignore[arg-type]
            return
    yield target.uid


def _operands(stmt: ir.Stmt) -> Iterator[ir.Buffer]:
    """Buffers of a tile operation."""
    if isinstance(stmt, ir.TileOp):
        for operand in stmt.operands:
            buffer = operand_buffer(operand)
            if buffer is not None:
                yield buffer


#: Position of the destination where it is not the first operand.
_DESTINATION = {
    "copy": 1,
    "reduce_sum": 1,
    "reduce_max": 1,
    "reduce_min": 1,
    "gemm_v0": 2,
    "mma": 2,
}
#: Operations that change their sources as well.
_DESTRUCTIVE = frozenset({"sort", "topk", "gather_mask"})


def _written(stmt: ir.Stmt) -> Iterator[ir.Buffer]:
    """Buffers that a tile operation may change."""
    if isinstance(stmt, ir.TileOp) and stmt.op not in _DESTRUCTIVE:
        buffer = operand_buffer(stmt.operands[_DESTINATION.get(stmt.op, 0)])
        if buffer is not None:
            yield buffer
        return
    yield from _operands(stmt)
