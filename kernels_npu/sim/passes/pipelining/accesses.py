"""What a statement of a pipelined loop reads and writes, as the compiler's pipeline passes see it.

They look at whole access pointers with a read/write mask, so the mask that the language declares
counts, not what the instruction does: `axpy` adds to its destination but declares a write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from kernels_npu.sim import ir
from kernels_npu.sim.passes.parallel_lowering import lower_parallel
from kernels_npu.sim.passes.rewriting import (
    loads,
    operand_buffer,
    own_expressions,
    root_of,
    static_int,
    subexpressions,
)
from kernels_npu.sim.passes.temporaries import Temporaries

#: Position of the operand that an operation writes; others write their first one.
_WRITTEN = {
    "copy": 1,
    "gemm_v0": 2,
    "gemm_v1": 2,
    "mma": 2,
    "reduce_sum": 1,
    "reduce_max": 1,
    "reduce_min": 1,
    "reinterpretcast": 0,
}
_WRITE_NOTHING = frozenset({"printf", "dump_tensor", "set_deq_scale"})

#: Operations whose destination is declared read as well, unless `init` holds at compile time.
_ACCUMULATING = frozenset({"gemm_v0", "gemm_v1", "mma", "mul_add_dst"})


@dataclass(frozen=True, kw_only=True)
class Access:
    """A run of `extent` elements of an allocation or tensor from element `offset` on.

    Both are None when not constant. `by_element`: a scalar read or store of one element.
    """

    buffer: ir.Buffer
    read: bool = False
    write: bool = False
    offset: int | None = None
    extent: int | None = None
    by_element: bool = False

    def covers(self, other: Access) -> bool:
        """Provably contains all that `other` touches."""
        if None in (self.offset, self.extent, other.offset, other.extent):
            return False
        return self.offset <= other.offset and self._end >= other._end  # type: ignore[operator]

    def overlaps(self, other: Access) -> bool:
        """Not provably disjoint from what `other` touches."""
        if None in (self.offset, self.extent, other.offset, other.extent):
            return True
        return self.offset < other._end and other.offset < self._end  # type: ignore[operator]

    @property
    def _end(self) -> int:
        return (self.offset or 0) + (self.extent or 0)


class Accesses:
    """Accesses of statements, hidden scratch buffers included."""

    def __init__(
        self, temporaries: Temporaries, origin: Mapping[ir.Stmt, ir.Stmt] | None = None
    ) -> None:
        self.temporaries = temporaries
        self.origin = {} if origin is None else origin

    def of(self, stmt: ir.Stmt) -> Iterator[Access]:
        """In order, nested statements included."""
        yield from self.own(stmt)
        if not isinstance(stmt, ir.Parallel) or lower_parallel(stmt) is None:
            for part in ir.children(stmt):
                for nested in part:
                    yield from self.of(nested)

    def own(self, stmt: ir.Stmt) -> Iterator[Access]:
        """What `stmt` touches itself; a vectorised `T.Parallel` is one statement."""
        if isinstance(stmt, ir.TileOp):
            yield from self._tile_op(stmt)
        elif isinstance(stmt, ir.Parallel):
            yield from _parallel(stmt)
        else:
            yield from _scalar_reads(stmt)
            if isinstance(stmt, ir.Store):
                yield _element(stmt.buffer, stmt.indices, write=True)

    def _tile_op(self, op: ir.TileOp) -> Iterator[Access]:
        written = -1 if op.op in _WRITE_NOTHING else _WRITTEN.get(op.op, 0)
        for position, operand in enumerate(op.operands):
            buffer = operand_buffer(operand)
            if buffer is None:
                continue
            offset, extent = _run(operand)
            write = position == written
            yield Access(
                buffer=root_of(buffer),
                read=not write or _reads_destination(op),
                write=write,
                offset=offset,
                extent=extent,
            )
        yield from _scalar_reads(op)
        for scratch in self.temporaries.of_statement.get(id(self.origin.get(op, op)), ()):
            yield Access(buffer=scratch, read=True, offset=0, extent=_size(scratch))


def _reads_destination(op: ir.TileOp) -> bool:
    init = op.attrs.get("init")
    fresh = init is True or (isinstance(init, ir.Const) and bool(init.value))
    return op.op in _ACCUMULATING and not fresh


def _scalar_reads(stmt: ir.Stmt) -> Iterator[Access]:
    operands = stmt.operands if isinstance(stmt, ir.TileOp) else ()
    for expr in own_expressions(stmt):
        for part in subexpressions(expr):
            if isinstance(part, ir.Load) and not any(part is operand for operand in operands):
                yield _element(part.buffer, part.indices, read=True)


def _element(
    buffer: ir.Buffer, indices: tuple[ir.Expr, ...], *, read: bool = False, write: bool = False
) -> Access:
    return Access(
        buffer=root_of(buffer),
        read=read,
        write=write,
        offset=_linear(buffer, indices),
        extent=1,
        by_element=True,
    )


def _parallel(loop: ir.Parallel) -> Iterator[Access]:
    lowered = lower_parallel(loop)
    if lowered is None:
        return
    for stmt in loop.body:
        for load in loads(stmt):
            yield _whole(load.buffer, read=True)
        if isinstance(stmt, ir.Store):
            yield _whole(stmt.buffer, write=True)


def _whole(buffer: ir.Buffer, *, read: bool = False, write: bool = False) -> Access:
    return Access(buffer=root_of(buffer), read=read, write=write, offset=0, extent=_size(buffer))


def _run(operand: ir.Operand) -> tuple[int | None, int | None]:
    if isinstance(operand, ir.Region):
        extents = [static_int(extent) for extent in operand.extents]
        count = None if None in extents else prod(e for e in extents if e is not None)
        return _linear(operand.buffer, operand.mins), count
    buffer = operand_buffer(operand)
    return 0, None if buffer is None else _size(buffer)


def _size(buffer: ir.Buffer) -> int | None:
    extents = [static_int(extent) for extent in buffer.shape]
    return None if None in extents else prod(e for e in extents if e is not None)


def _linear(buffer: ir.Buffer, indices: tuple[ir.Expr, ...]) -> int | None:
    offset = 0
    for index, size in zip(indices, buffer.shape):
        place, extent = static_int(index), static_int(size)
        if place is None or (extent is None and offset):
            return None
        offset = offset * (extent or 1) + place
    return offset
