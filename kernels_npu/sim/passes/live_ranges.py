"""When each on-chip buffer is first and last used, as the compiler's memory planner computes it.

The planner numbers the statements that touch a buffer; loops, branches and regions take a number
at their begin and one at their end. A buffer lives from its first touch to its last.
Two properties matter:

  * a last use inside a loop that does not contain the first use is moved behind that loop;
  * a buffer whose last use is in a condition or a binding ends at the *begin* of the enclosing
    region, because a region is found by its first number.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernels_npu.sim import ir
from kernels_npu.sim.passes.program_text import LEAF, LET, LOOP, UNIT, Node


@dataclass(frozen=True, kw_only=True, eq=False)
class LiveRange:
    """Statement numbers of the first and last use, both inclusive.

    `order` counts first uses. Of buffers born in the same statement the compiler places the later
    one first, as far as its hash maps keep an order at all.
    """

    buffer: ir.Buffer
    start: int
    end: int
    order: int


@dataclass(kw_only=True, eq=False)
class _Event:
    """One number of the sequence; begin and end of a region share the `key`."""

    key: Node
    touched: list[ir.Buffer]


class _Sequence:
    """The numbered statements."""

    def __init__(self, nodes: tuple[Node, ...]) -> None:
        self.events: list[_Event] = []
        self.level: dict[Node, int] = {}
        self.first: dict[ir.Buffer, int] = {}
        self._regions: list[list[ir.Buffer]] = []
        self._depth = 0
        self._region(Node(kind="kernel", touched=(), children=nodes))

    def _visit(self, node: Node) -> None:
        if node.kind == LEAF:
            if node.touched:
                self._touch(node.touched)
                self.level[node] = self._depth
                self.events.append(_Event(key=node, touched=list(node.touched)))
        elif node.kind == LET:
            self._touch(node.touched)
            self._regions[-1] += node.touched
            for child in node.children:
                self._visit(child)
        elif node.kind == UNIT or (node.kind == LOOP and node.repeats > 1):
            for _ in range(node.repeats):  # unit loops and unrolled ones are gone by now
                for child in node.children:
                    self._visit(child)
        else:
            self._region(node)

    def _region(self, node: Node) -> None:
        self._depth += node.kind == LOOP
        self.level[node] = self._depth
        self.events.append(_Event(key=node, touched=[]))
        self._regions.append(list(node.touched))
        self._touch(node.touched)
        for child in node.children:
            self._visit(child)
        self.events.append(_Event(key=node, touched=self._regions.pop()))
        self._depth -= node.kind == LOOP

    def _touch(self, buffers: tuple[ir.Buffer, ...]) -> None:
        for buffer in buffers:
            self.first.setdefault(buffer, len(self.events))


def live_ranges(nodes: tuple[Node, ...]) -> list[LiveRange]:
    """Ranges of all touched buffers by first use; those without a first *statement* have none."""
    sequence = _Sequence(nodes)
    births: dict[ir.Buffer, Node] = {}
    order: dict[ir.Buffer, int] = {}
    for number, event in enumerate(sequence.events):
        for buffer in event.touched:
            if sequence.first[buffer] == number and buffer not in births:
                births[buffer] = event.key
                order[buffer] = len(order)
    deaths = _deaths(sequence, births)
    number_of: dict[Node, int] = {}
    for number, event in enumerate(sequence.events):
        number_of.setdefault(event.key, number)
    ranges = [
        LiveRange(
            buffer=buffer,
            start=number_of[birth],
            end=number_of[deaths[buffer]],
            order=order[buffer],
        )
        for buffer, birth in births.items()
        if buffer in deaths
    ]
    return sorted(ranges, key=lambda r: (r.start, -r.order))


def _deaths(sequence: _Sequence, births: dict[ir.Buffer, Node]) -> dict[ir.Buffer, Node]:
    """The statement of each buffer's last use, moved out of loops that started after its first."""
    last: dict[ir.Buffer, Node] = {}
    for event in reversed(sequence.events):
        for buffer in event.touched:
            last.setdefault(buffer, event.key)
    marked = {*births.values(), *last.values()}
    marks = [event.key for event in sequence.events if event.key in marked]
    moved: dict[ir.Buffer, Node] = {}
    for buffer, death in last.items():
        birth = births.get(buffer)
        if birth is None or sequence.level[death] <= sequence.level[birth]:
            moved[buffer] = death
            continue
        outside = sequence.level[birth] - 1
        position = next(i for i, key in enumerate(marks) if key is death)
        while position + 1 < len(marks) and sequence.level[marks[position + 1]] != outside:
            position += 1
        moved[buffer] = marks[position]
    return moved
