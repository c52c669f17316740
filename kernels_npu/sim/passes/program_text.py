"""The program as memory planning sees it: which buffers each statement touches, and the nesting.

The compiler plans after `T.Parallel` has become vector instructions and after the cube and vector copies
have been put one behind the other, so this tree is built from both programs and holds hidden buffers too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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

#: Kinds of nodes. A `region` is the part of one core type; a `let` holds the statements behind it.
LEAF, LOOP, BRANCH, REGION, LET = "leaf", "loop", "branch", "region", "let"

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
    """All nodes in program order, and the buffers that lowering `T.Parallel` added."""

    nodes: tuple[Node, ...]
    added: tuple[ir.Buffer, ...]


def build(bodies: tuple[tuple[ir.Stmt, ...], ...], temporaries: Temporaries) -> ProgramText:
    """The text of one program, or of the cube and the vector program one behind the other."""
    builder = _Builder(temporaries)
    nodes: tuple[Node, ...] = ()
    for body in bodies:
        part = builder.block(body)
        # a combined program wraps each copy in a region of its own
        nodes += part if len(bodies) == 1 else (Node(kind=REGION, touched=(), children=part),)
    return ProgramText(nodes=nodes, added=tuple(builder.added))


def walk(nodes: tuple[Node, ...]) -> Iterator[Node]:
    """All nodes in document order, parents first."""
    for node in nodes:
        yield node
        yield from walk(node.children)


def touches(node: Node) -> Iterator[ir.Buffer]:
    """Everything that `node` and what is nested in it touch, in order, with repetitions."""
    yield from node.touched
    for child in node.children:
        yield from touches(child)


class _Builder:
    def __init__(self, temporaries: Temporaries) -> None:
        self.temporaries = temporaries
        self.added: list[ir.Buffer] = []

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
            return children
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
        lowered = lower_parallel(stmt)
        if lowered is None:
            inner = tuple(node for part in ir.children(stmt) for node in self.block(part))
            for var in reversed(stmt.vars):
                inner = (Node(kind=LOOP, touched=(), children=inner, loop=var),)
            return inner
        self.added += lowered.added
        leaves = tuple(
            Node(kind=LEAF, touched=tuple(b for touched in op for b in _on_chip(touched)))
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
        touched += self.temporaries.of_statement.get(id(stmt), ())
        return tuple(dict.fromkeys(touched))


def _read(stmt: ir.Stmt) -> tuple[ir.Buffer, ...]:
    return tuple(buffer for load in loads(stmt) for buffer in _on_chip(load.buffer))


def _on_chip(buffer: ir.Buffer) -> tuple[ir.Buffer, ...]:
    root = root_of(buffer)
    return (root,) if root.scope in _ON_CHIP else ()
