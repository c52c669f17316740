"""The event graph against brute force: reachability over starts and completions."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels_npu.sim.machine.cells import Cell
from kernels_npu.sim.machine.happens_before import Execution, compare

CHAINS = 4


@dataclass(frozen=True)
class Step:
    """One event: its chain, the events it waits for, and the bytes it touches, if any."""

    chain: int
    after: tuple[int, ...] = ()
    span: tuple[int, int, bool] | None = None


@st.composite
def programs(draw: st.DrawFn) -> list[Step]:
    steps: list[Step] = []
    for number in range(draw(st.integers(2, 24))):
        after = draw(st.sets(st.integers(0, number - 1), max_size=2)) if number else set()
        start = draw(st.integers(0, 12))
        touches = draw(st.booleans())
        span = (start, draw(st.integers(1, 6)), draw(st.booleans())) if touches else None
        steps.append(Step(draw(st.integers(0, CHAINS - 1)), tuple(sorted(after)), span))
    return steps


def build(steps: list[Step]) -> Execution:
    execution = Execution(CHAINS)
    for step in steps:
        event = execution.graph.add(step.chain, step.after)
        if step.span is not None:
            start, size, write = step.span
            execution.access(event, "UB", Cell(start, 1, size, 0), write=write)
    return execution


def brute_force(steps: list[Step]) -> np.ndarray:
    """[a, b]: whether a is complete when b starts, by searching the graph of starts and ends.

    An event starts after its predecessor on the chain started, and after all that the chains of its
    `after` events had started up to them is complete; nothing else is known about completion.
    """
    count = len(steps)
    edges: dict[tuple[str, int], list[tuple[str, int]]] = {}

    def edge(a: tuple[str, int], b: tuple[str, int]) -> None:
        edges.setdefault(a, []).append(b)

    for b, step in enumerate(steps):
        edge(("start", b), ("end", b))
        earlier = [a for a in range(b) if steps[a].chain == step.chain]
        if earlier:
            edge(("start", earlier[-1]), ("start", b))
        for other in step.after:
            for a in range(other + 1):
                if steps[a].chain == steps[other].chain:
                    edge(("end", a), ("start", b))
    reach = np.zeros((count, count), dtype=bool)
    for a in range(count):
        seen = {("end", a)}
        queue = deque(seen)
        while queue:
            for node in edges.get(queue.popleft(), ()):
                if node not in seen:
                    seen.add(node)
                    queue.append(node)
        for kind, b in seen:
            if kind == "start":
                reach[a, b] = True
    return reach


@given(programs())
def test_ordered_is_reachability(steps: list[Step]) -> None:
    graph = build(steps).graph
    expected = brute_force(steps)
    for a in range(len(steps)):
        for b in range(a + 1, len(steps)):
            assert graph.ordered(a, b) == expected[a, b], (a, b)


@given(programs())
def test_a_path_exists_exactly_between_ordered_events_and_ends_at_the_later(
    steps: list[Step],
) -> None:
    graph = build(steps).graph
    for a in range(len(steps)):
        for b in range(a + 1, len(steps)):
            path = graph.path(a, b)
            if not graph.ordered(a, b):
                assert path == []
            for event in path:
                assert event not in (a, b)
                assert steps[event].chain == steps[a].chain or graph.ordered(a, event)


def conflicting(steps: list[Step]) -> list[tuple[int, int]]:
    """All pairs of events that share a byte and one of which writes it."""
    pairs = []
    for b, later in enumerate(steps):
        for a, before in enumerate(steps[:b]):
            if before.span is None or later.span is None:
                continue
            (x, n, writes), (y, m, writes_too) = before.span, later.span
            if (writes or writes_too) and x < y + m and y < x + n:
                pairs.append((a, b))
    return pairs


@given(programs(), st.data())
def test_an_order_is_lost_exactly_if_some_conflicting_pair_loses_it(
    steps: list[Step], data: st.DataObject
) -> None:
    """The reduced pairs stand for all pairs when nothing is unordered to begin with."""
    # Make every conflicting pair ordered first, then delete some edges.
    complete = [
        Step(
            s.chain,
            tuple(sorted({*s.after, *(a for a, c in conflicting(steps) if c == b)})),
            s.span,
        )
        for b, s in enumerate(steps)
    ]
    kept = [
        Step(s.chain, tuple(a for a in s.after if data.draw(st.booleans())), s.span)
        for s in complete
    ]
    reach = brute_force(kept)
    expected = any(not reach[a, b] for a, b in conflicting(steps))
    found = compare(build(complete), build(kept), lambda a, b: False)
    assert found.same
    assert found.unordered == 0
    assert bool(len(found.lost)) == expected


def test_exempt_chains_need_no_edge() -> None:
    steps = [Step(0, span=(0, 4, True)), Step(0, (0,), (2, 4, False)), Step(1, (1,), (0, 8, True))]
    without = [steps[0], Step(0, (), (2, 4, False)), steps[2]]
    strict = compare(build(steps), build(without), lambda a, b: False)
    assert [tuple(pair) for pair in strict.lost] == [(0, 1)]
    assert not len(compare(build(steps), build(without), lambda a, b: a == b).lost)


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        ([Step(1, span=(0, 4, True)), Step(0, span=(0, 4, True))], True),
        ([Step(0, span=(0, 4, True))], False),
        ([Step(0, span=(0, 4, True)), Step(1, span=(4, 4, True))], False),
        ([Step(0, span=(0, 4, False)), Step(1, span=(0, 4, True))], False),
    ],
    ids=["other order of the chains", "one missing", "other bytes", "a read for a write"],
)
def test_executions_are_compared_when_every_chain_does_the_same(
    changed: list[Step], same: bool
) -> None:
    steps = [Step(0, span=(0, 4, True)), Step(1, (0,), (0, 4, True))]
    assert compare(build(steps), build(changed), lambda a, b: False).same == same
