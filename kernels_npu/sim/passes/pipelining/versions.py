"""Buffers of which a pipeline keeps several versions.

All versions lie one behind the other in one allocation, the *base*. While passes still look at the
program, a statement of a pipelined loop names a version by a buffer that stands for "the version of
this iteration"; `specialise` finally turns each of them into a view of the base, under a branch for
every version that a loop variable can select. The machine then sees fixed addresses only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from math import lcm, prod

from kernels_npu.sim import ir
from kernels_npu.sim.dtypes import nbytes
from kernels_npu.sim.passes.rewriting import (
    loads,
    operand_buffer,
    root_of,
    static_int,
    with_children,
)
from kernels_npu.sim.passes.substitution import Body, Substitution

#: Attribute of a copy whose destination address the compiler does not know.
RUN_TIME_ADDRESS = "run_time_address"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Selected:
    """Stands for version `(loop variable + shift) % count` of `original`."""

    original: ir.Buffer
    shift: int


class Versions:
    """The versioned buffers of a kernel.

    bases: allocation with all versions, by the original one. counts: versions, by original.
    aliases: every view of a base that was made. origin: what each copied statement was made from.
    """

    def __init__(self) -> None:
        self.bases: dict[ir.Buffer, ir.Buffer] = {}
        self.counts: dict[ir.Buffer, int] = {}
        self.aliases: list[ir.Buffer] = []
        self.origin: dict[ir.Stmt, ir.Stmt] = {}
        self._loops: dict[ir.Var, int] = {}
        self._selected: dict[ir.Buffer, _Selected] = {}

    def add(self, original: ir.Buffer, count: int) -> None:
        """Keep `count` versions of the allocation `original`."""
        shape = (count, *original.shape)
        self.bases[original] = dataclasses.replace(original, shape=shape, uid=_new_uid())
        self.counts[original] = count

    def select_by(self, loop: ir.Var, originals: Iterator[ir.Buffer]) -> None:
        """Let the variable of a loop choose the versions of `originals` in it."""
        self._loops[loop] = lcm(self._loops.get(loop, 1), *(self.counts[b] for b in originals))

    # ------------------------------------------------------------------ stand-ins

    def at(
        self, body: Body, index: int, originals: frozenset[ir.Buffer]
    ) -> dict[ir.Buffer, ir.Buffer]:
        """Views of version `index` for the buffers of `body` that lie in `originals`."""
        return {
            buffer: self._view(buffer, index % self.counts[root_of(buffer)])
            for buffer in touched(body)
            if root_of(buffer) in originals
        }

    def of_iteration(
        self, body: Body, shift: int, originals: frozenset[ir.Buffer]
    ) -> dict[ir.Buffer, ir.Buffer]:
        """Stand-ins for version `loop variable + shift`, for `specialise` to resolve."""
        made = {}
        for buffer in touched(body):
            if root_of(buffer) in originals:
                made[buffer] = self._view(buffer, 0)
                self._selected[made[buffer]] = _Selected(original=buffer, shift=shift)
        return made

    def _view(self, buffer: ir.Buffer, version: int) -> ir.Buffer:
        """A view of one version of `buffer`, which is a versioned allocation or a view of one."""
        if buffer.alias_of is not None:
            parent, offset = self._view(buffer.alias_of, version), buffer.alias_offset
        else:
            parent, offset = self.bases[buffer], version * version_bytes(buffer)
        view = dataclasses.replace(buffer, alias_of=parent, alias_offset=offset, uid=_new_uid())
        self.aliases.append(view)
        return view

    def declare(self, func: ir.PrimFunc) -> ir.PrimFunc:
        """`func` with the bases in place of the original allocations, and all views."""

        def base(buffer: ir.Buffer) -> ir.Buffer:
            return self.bases.get(buffer, buffer)

        if not self.bases:
            return func
        return dataclasses.replace(
            func,
            allocs=(*map(base, func.allocs), *self.aliases),
            addresses={base(buffer): at for buffer, at in func.addresses.items()},
            layouts={base(buffer): layout for buffer, layout in func.layouts.items()},
        )

    def of_each(self, replaced: Mapping[ir.Buffer, ir.Buffer]) -> Mapping[ir.Buffer, ir.Buffer]:
        """Buffers that stand for others, with the versions that the others have."""
        return {
            self.bases.get(old, old): dataclasses.replace(new, shape=(self.counts[old], *new.shape))
            if old in self.counts
            else new
            for old, new in replaced.items()
        }

    # ------------------------------------------------------------------ resolving

    def specialise(self, body: Body) -> Body:
        """`body` with every stand-in replaced by views of fixed versions."""
        if not self._selected:
            return body
        return tuple(self._statement(stmt) for stmt in body)

    def _statement(self, stmt: ir.Stmt) -> ir.Stmt:
        new = with_children(stmt, self.specialise)
        if not isinstance(new, ir.For) or new.var not in self._loops:
            return new
        count = self._loops[new.var]
        present = [b for b in touched(new.body) if b in self._selected]
        if not present:
            return new
        start, stop = static_int(new.start), static_int(new.stop)
        chain: Body = ()
        for residue in reversed(range(count)):
            if start is not None and stop is not None and stop - start <= count:
                if not any(i % count == residue for i in range(start, stop)):
                    continue
            part = self._resolved(new.body, present, residue)
            cond = ir.binary("eq", new.var % count, residue)
            chain = (ir.If(loc=new.loc, cond=cond, then=part, orelse=chain),) if chain else part
        return dataclasses.replace(new, body=chain)

    def _resolved(self, body: Body, present: list[ir.Buffer], residue: int) -> Body:
        views = {}
        for stand_in in present:
            chosen = self._selected[stand_in]
            count = self.counts[root_of(chosen.original)]
            views[stand_in] = self._view(chosen.original, (residue + chosen.shift) % count)
        copies = Substitution(buffers=views, origin=self.origin).body(body)
        return _at_run_time(copies, frozenset(views.values()))


def _at_run_time(body: Body, views: frozenset[ir.Buffer]) -> Body:
    """Copies into `views` marked: their address depends on a loop variable in generated code."""

    def visit(stmts: Body) -> Body:
        return tuple(map(mark, stmts))

    def mark(stmt: ir.Stmt) -> ir.Stmt:
        if isinstance(stmt, ir.TileOp) and stmt.op == "copy":
            if operand_buffer(stmt.operands[1]) in views:
                attrs: Mapping[str, ir.Attr] = {**stmt.attrs, RUN_TIME_ADDRESS: True}
                return dataclasses.replace(stmt, attrs=attrs)
        return with_children(stmt, visit)

    return visit(body)


def version_bytes(buffer: ir.Buffer) -> int:
    """Bytes between two versions: the elements of one, without any padding."""
    count = prod(static_int(extent) or 1 for extent in buffer.shape)
    return nbytes(count, buffer.dtype)


def touched(body: Body) -> list[ir.Buffer]:
    """The buffers that statements name, nested ones included, each once."""
    found: dict[ir.Buffer, None] = {}
    for stmt in ir.walk(body):
        if isinstance(stmt, ir.TileOp):
            for operand in stmt.operands:
                buffer = operand_buffer(operand)
                if buffer is not None:
                    found.setdefault(buffer)
        elif isinstance(stmt, ir.Store):
            found.setdefault(stmt.buffer)
        for load in loads(stmt):
            found.setdefault(load.buffer)
    return list(found)


def _new_uid() -> int:
    return ir.Var("").uid
