"""The program as memory planning sees it: which buffers each statement touches, and the nesting.

The compiler plans after `T.Parallel` has become vector instructions and after the cube and vector
programs have been put one behind the other, so this tree is built from both programs and holds
hidden buffers too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kernels_npu.sim import ir
from kernels_npu.sim.passes.decided_branches import without_decided
from kernels_npu.sim.passes.parallel_lowering import ParallelLowering, lower_parallel
from kernels_npu.sim.passes.pipelining.versions import Versions
from kernels_npu.sim.passes.pruning import without_no_ops
from kernels_npu.sim.passes.rewriting import (
    loads,
    operand_buffer,
    own_expressions,
    root_of,
    static_int,
    subexpressions,
)
from kernels_npu.sim.passes.temporaries import Temporaries

#: Kinds of nodes. A `unit` is a loop of one iteration, which disappears once buffers have found
#: their loops; a `region` is the part of one core type; a `let` holds the statements behind it.
LEAF, LOOP, UNIT, BRANCH, REGION, LET = "leaf", "loop", "unit", "branch", "region", "let"

_ON_CHIP = frozenset({"ub", "l1", "l0a", "l0b", "l0c"})


@dataclass(frozen=True, kw_only=True, eq=False)
class Node:
    """One statement: the allocations it touches itself, in order, and what is nested in it.

    `loop` is the source loop (for loops that split into two core programs, the same on both sides).
    """

    kind: str
    touched: tuple[ir.Buffer, ...]
    children: tuple[Node, ...] = ()
    loop: ir.Var | None = None
    repeats: int = 1


@dataclass(frozen=True, kw_only=True)
class ProgramText:
    """The program at buffer layout (`nodes`) and at live-range analysis (`settled`).

    In between the compiler removes bindings that nothing reads and empty loops and branches.
    """

    nodes: tuple[Node, ...]
    settled: tuple[Node, ...]


def build(
    bodies: tuple[tuple[ir.Stmt, ...], ...],
    temporaries: Temporaries,
    versions: Versions | None = None,
) -> ProgramText:
    """The text of one program, or of the cube and the vector program one behind the other.

    `versions` tells which statements are copies that a pipeline made, and of which buffers it keeps
    several versions.
    """
    builder = _Builder(temporaries, versions or Versions())

    def nodes(parts: tuple[tuple[ir.Stmt, ...], ...]) -> tuple[Node, ...]:
        blocks = [builder.block(without_decided(part, {})) for part in parts]
        if len(blocks) == 1:
            return blocks[0]
        # a combined program wraps each copy in a region of its own
        return tuple(Node(kind=REGION, touched=(), children=block) for block in blocks)

    return ProgramText(nodes=nodes(bodies), settled=nodes(tuple(map(without_no_ops, bodies))))


def touches(node: Node) -> Iterator[ir.Buffer]:
    """Everything that `node` and what is nested in it touch, in order, with repetitions."""
    yield from node.touched
    for child in node.children:
        yield from touches(child)


class _Builder:
    def __init__(self, temporaries: Temporaries, versions: Versions) -> None:
        self.temporaries = temporaries
        self.versions = versions
        #: by the user's statement, so that copies of it share its hidden buffers
        self._lowered: dict[ir.Stmt, ParallelLowering | None] = {}

    def block(self, body: tuple[ir.Stmt, ...]) -> tuple[Node, ...]:
        nodes: list[Node] = []
        for position, stmt in enumerate(body):
            if isinstance(stmt, ir.Let):
                if not any(True for _ in loads(stmt)):
                    continue  # a pure binding is substituted into its uses
                rest = self.block(body[position + 1 :])
                nodes.append(Node(kind=LET, touched=_read(stmt), children=rest))
                break
            nodes += self.statement(stmt)
        return tuple(nodes)

    def statement(self, stmt: ir.Stmt) -> tuple[Node, ...]:
        if isinstance(stmt, ir.TileOp):
            return (Node(kind=LEAF, touched=self._operands(stmt)),)
        if isinstance(stmt, ir.Store):
            return (Node(kind=LEAF, touched=(*_read(stmt), *_on_chip(stmt.buffer))),)
        if isinstance(stmt, ir.Parallel):
            return self._parallel(stmt)
        if isinstance(stmt, ir.For):
            return self._loop(stmt)
        if isinstance(stmt, (ir.If, ir.While, ir.CoreScope)):
            children = tuple(node for part in ir.children(stmt) for node in self.block(part))
            kind = REGION if isinstance(stmt, ir.CoreScope) else BRANCH
            return (Node(kind=kind, touched=_read(stmt), children=children),)
        return ()

    def _loop(self, stmt: ir.For) -> tuple[Node, ...]:
        children = self.block(stmt.body)
        start, stop = static_int(stmt.start), static_int(stmt.stop)
        trips = None if start is None or stop is None else stop - start
        if trips == 1:
            return (Node(kind=UNIT, touched=(), children=children, loop=stmt.var),)
        repeats = trips if stmt.kind == "unroll" and trips else 1
        return (
            Node(
                kind=LOOP,
                touched=_read(stmt),
                children=children,
                loop=stmt.var,
                repeats=repeats,
            ),
        )

    def _parallel(self, stmt: ir.Parallel) -> tuple[Node, ...]:
        source = self.versions.origin.get(stmt, stmt)
        if source not in self._lowered:
            assert isinstance(source, ir.Parallel)
            self._lowered[source] = lower_parallel(source)
        lowered = self._lowered[source]
        if lowered is None:
            inner = tuple(node for part in ir.children(stmt) for node in self.block(part))
            for var in reversed(stmt.vars):
                inner = (Node(kind=LOOP, touched=(), children=inner, loop=var),)
            return inner
        leaves = tuple(
            Node(kind=LEAF, touched=tuple(b for touched in op for b in self._on_chip(touched)))
            for op in lowered.operations
        )
        if lowered.row_loop is None:
            return leaves
        return (Node(kind=LOOP, touched=(), children=leaves, loop=lowered.row_loop),)

    def _operands(self, stmt: ir.TileOp) -> tuple[ir.Buffer, ...]:
        touched: list[ir.Buffer] = []
        order = stmt.operands
        if stmt.op.startswith("reduce_") and len(order) > 1:
            order = (order[1], order[0], *order[2:])  # the instruction takes its output first
        for operand in order:
            buffer = operand_buffer(operand)
            if buffer is not None:
                touched += _on_chip(buffer)
        for expr in own_expressions(stmt):
            for part in subexpressions(expr):
                if isinstance(part, ir.Load):
                    touched += _on_chip(part.buffer)
        source = self.versions.origin.get(stmt, stmt)
        for scratch in self.temporaries.of_statement.get(id(source), ()):
            touched += self._on_chip(scratch)
        return tuple(dict.fromkeys(touched))

    def _on_chip(self, buffer: ir.Buffer) -> tuple[ir.Buffer, ...]:
        """The allocation of a buffer of the user's program, with all its versions."""
        return tuple(self.versions.bases.get(root, root) for root in _on_chip(buffer))


def _read(stmt: ir.Stmt) -> tuple[ir.Buffer, ...]:
    return tuple(buffer for load in loads(stmt) for buffer in _on_chip(load.buffer))


def _on_chip(buffer: ir.Buffer) -> tuple[ir.Buffer, ...]:
    root = root_of(buffer)
    return (root,) if root.scope in _ON_CHIP else ()
