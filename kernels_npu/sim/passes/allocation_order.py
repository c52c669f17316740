"""The order in which the compiler lays out on-chip buffers when memory planning is off.

A pass hoists each allocation to the innermost loop that holds all its uses; a later one collects
them again in order of first touch. So buffers are *not* in declaration order, and a buffer that
nothing touches is not placed at all.
"""

from __future__ import annotations

from collections.abc import Iterator

from kernels_npu.sim import ir
from kernels_npu.sim.passes.program_text import LOOP, REGION, UNIT, Node, touches

_Path = tuple[ir.Var, ...]
_LOOPS = (LOOP, UNIT)


def allocation_order(nodes: tuple[Node, ...]) -> list[ir.Buffer]:
    """The touched buffers in the order of their addresses."""
    home = homes(nodes)
    order: dict[ir.Buffer, None] = {}
    _collect(nodes, (), 0, home, order)
    return list(order)


def homes(nodes: tuple[Node, ...]) -> dict[ir.Buffer, tuple[ir.Var, ...]]:
    """The variables of the loops around all uses of each buffer, outermost first."""
    found: dict[ir.Buffer, _Path] = {}
    _find_homes(nodes, (), found)
    return found


def _find_homes(nodes: tuple[Node, ...], path: _Path, home: dict[ir.Buffer, _Path]) -> None:
    """The chain of loops around all uses of each buffer."""
    for node in nodes:
        for buffer in node.touched:
            home[buffer] = _common(home[buffer], path) if buffer in home else path
        inner = (*path, node.loop) if node.kind in _LOOPS and node.loop is not None else path
        _find_homes(node.children, inner, home)


def _common(a: _Path, b: _Path) -> _Path:
    length = 0
    while length < min(len(a), len(b)) and a[length] is b[length]:
        length += 1
    return a[:length]


def _collect(
    nodes: tuple[Node, ...],
    path: _Path,
    outer: int,
    home: dict[ir.Buffer, _Path],
    order: dict[ir.Buffer, None],
) -> None:
    """Append the buffers that live at `path` statement by statement, then those of nested loops.

    The last loops of `path`, from number `outer` on, are unit loops: they have vanished, so what
    lives in them stands beside what lives around them.
    """
    for node in nodes:
        if node.kind == REGION:
            _collect(node.children, path, outer, home, order)
            continue
        if node.kind == UNIT and node.loop is not None:
            _collect(node.children, (*path, node.loop), outer, home, order)
            continue
        for buffer in touches(node):
            if outer <= len(home[buffer]) <= len(path):
                order.setdefault(buffer)
        for inner, children in _nested_loops(node, path):
            _collect(children, inner, len(inner), home, order)


def _nested_loops(node: Node, path: _Path) -> Iterator[tuple[_Path, tuple[Node, ...]]]:
    """The outermost loops at or below `node`, with their paths."""
    if node.kind in _LOOPS and node.loop is not None:
        yield (*path, node.loop), node.children
        return
    for child in node.children:
        yield from _nested_loops(child, path)
