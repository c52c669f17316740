"""Happens-before of one execution, as an explicit graph of events.

A chain is something that starts its events one after another: a pipe of a core. Two relations
order events. Within a chain, an event *starts* after the one before it. An edge between events
says that the later one starts after the earlier one, and all that its chain had started before it,
is *complete*: that is what a flag, a barrier or a cross-core flag gives. On a chain that also
completes in order, two accesses of its own need no edge.

The graph knows nothing of how a checker tracks clocks while a kernel runs, so it can judge one: an
order between two accesses is redundant exactly if the graph without it still has them ordered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kernels_npu.sim.machine.cells import Cell, CellIndex

#: Rows are shared by events that nothing distinguishes, and never changed.
Clock = npt.NDArray[np.int32]
Clocks = npt.NDArray[np.int32]
Numbers = npt.NDArray[np.int64]
#: Rows of two numbers: earlier, later.
Pairs = npt.NDArray[np.int64]

_NO_PAIRS: Pairs = np.zeros((0, 2), dtype=np.int64)


class EventGraph:
    """Events on `chains` chains, added in the order of an execution."""

    def __init__(self, chains: int) -> None:
        self.chains = chains
        self.chain_of: list[int] = []
        #: number of the event on its chain, counted from 1
        self.position: list[int] = []
        self.labels: list[object] = []
        self._previous: list[int] = []
        self._after: list[tuple[int, ...]] = []
        self._last = [-1] * chains
        self._rows: list[Clock] = []
        self._clocks: Clocks | None = None

    def __len__(self) -> int:
        return len(self.chain_of)

    def add(self, chain: int, after: Sequence[int] = (), label: object = None) -> int:
        """A new event at the end of `chain`, which starts when the events `after` are complete."""
        event = len(self.chain_of)
        previous = self._last[chain]
        self.chain_of.append(chain)
        self.position.append(1 if previous < 0 else self.position[previous] + 1)
        self.labels.append(label)
        self._previous.append(previous)
        self._after.append(tuple(after))
        self._last[chain] = event
        self._rows.append(self._clock(previous, after))
        self._clocks = None
        return event

    def _clock(self, previous: int, after: Sequence[int]) -> Clock:
        if previous >= 0 and not after:
            return self._rows[previous]
        row = np.zeros(self.chains, np.int32) if previous < 0 else self._rows[previous].copy()
        for other in after:
            np.maximum(row, self._rows[other], out=row)
            chain = self.chain_of[other]
            row[chain] = max(row[chain], self.position[other])
        return row

    def last(self, chain: int) -> int:
        """The latest event of `chain`, -1 when there is none."""
        return self._last[chain]

    def clocks(self) -> Clocks:
        """Per event and chain: the last position of the chain that is complete when it starts."""
        if self._clocks is None:
            self._clocks = np.array(self._rows, dtype=np.int32).reshape(-1, self.chains)
        return self._clocks

    def ordered(self, before: int, later: int) -> bool:
        """Whether `before` is complete when `later` starts."""
        return bool(self._rows[later][self.chain_of[before]] >= self.position[before])

    def all_ordered(self, pairs: Pairs) -> npt.NDArray[np.bool_]:
        """`ordered` for every pair of events."""
        before, later = pairs[:, 0], pairs[:, 1]
        chain = np.array(self.chain_of, dtype=np.int64)[before]
        position = np.array(self.position, dtype=np.int64)[before]
        return self.clocks()[later, chain] >= position

    def path(self, before: int, later: int) -> list[int]:
        """Events whose edges carry the order from `before` to `later`, ends excluded.

        Empty when there is no such path, or when a single edge joins the two.
        """
        came_from: dict[int, int] = {later: -1}
        queue = deque([later])
        chain, position = self.chain_of[before], self.position[before]
        while queue:
            event = queue.popleft()
            for other in self._after[event]:
                if self.chain_of[other] == chain and self.position[other] >= position:
                    return self._trail(other, event, before, came_from)
                if other not in came_from:
                    came_from[other] = event
                    queue.append(other)
            previous = self._previous[event]
            if previous >= 0 and previous not in came_from:
                came_from[previous] = event
                queue.append(previous)
        return []

    @staticmethod
    def _trail(other: int, event: int, before: int, came_from: dict[int, int]) -> list[int]:
        trail = [other] if other != before else []
        while came_from[event] >= 0:
            trail.append(event)
            event = came_from[event]
        return trail


@dataclass(frozen=True, eq=False, slots=True)
class MemoryAccess:
    """What an event reads or writes: `cell` gives the bytes of `memory`."""

    event: int
    memory: Hashable
    cell: Cell
    write: bool

    @property
    def key(self) -> tuple[Hashable, int, int, int, int, bool]:
        """Equal for accesses of the same bytes in the same way."""
        cell = self.cell
        return self.memory, cell.start, cell.rows, cell.row_bytes, cell.pitch, self.write


@dataclass(eq=False)
class _Range:
    """The accesses of one byte range that later ones must be compared with."""

    cell: Cell
    overlaps: list[_Range] = field(default_factory=list)
    write: int = -1
    reads: dict[int, int] = field(default_factory=dict)


class Execution:
    """The events of an execution and its accesses to memory."""

    def __init__(self, chains: int) -> None:
        self.graph = EventGraph(chains)
        self.accesses: list[MemoryAccess] = []
        self._pairs: Pairs | None = None

    def access(self, event: int, memory: Hashable, cell: Cell, *, write: bool) -> None:
        """`event` touches `cell` of `memory`."""
        self.accesses.append(MemoryAccess(event, memory, cell, write))

    def events(self) -> Numbers:
        """The event of every access."""
        return np.array([access.event for access in self.accesses], dtype=np.int64)

    def pairs(self) -> Pairs:
        """`conflicts` of different events as rows of access numbers; made once."""
        if self._pairs is None:
            event = [access.event for access in self.accesses]
            rows = [(a, b) for a, b in self.conflicts() if event[a] != event[b]]
            self._pairs = np.array(rows, dtype=np.int64).reshape(-1, 2)
        return self._pairs

    def conflicts(self) -> Iterator[tuple[int, int]]:
        """Pairs of accesses (earlier, later), one of which writes, that suffice to order all.

        Where a write lies between two accesses of the same range, their order follows.
        """
        memories: dict[Hashable, tuple[CellIndex, dict[tuple[int, ...], _Range], list[_Range]]] = {}
        for number, access in enumerate(self.accesses):
            if access.memory not in memories:
                memories[access.memory] = (CellIndex(), {}, [])
            place = _range_of(access.cell, *memories[access.memory])
            for other in place.overlaps:
                if other.write >= 0:
                    yield other.write, number
                if access.write:
                    yield from ((read, number) for read in other.reads.values())
            if access.write:
                place.write = number
                place.reads.clear()
            else:
                place.reads[self.graph.chain_of[access.event]] = number

    def by_chain(self) -> dict[int, list[int]]:
        """Numbers of the accesses of every chain, in its order."""
        found: dict[int, list[int]] = {}
        for number, access in enumerate(self.accesses):
            found.setdefault(self.graph.chain_of[access.event], []).append(number)
        return found


def _range_of(
    cell: Cell,
    index: CellIndex,
    ranges: dict[tuple[int, ...], _Range],
    by_number: list[_Range],
) -> _Range:
    key = (cell.start, cell.rows, cell.row_bytes, cell.pitch)
    found = ranges.get(key)
    if found is not None:
        return found
    own = Cell(*key)
    found = ranges[key] = _Range(own)
    found.overlaps.append(found)
    # The index returns cells; `writer` is free here and leads back to the range.
    own.writer = len(by_number)
    for other in index.meeting(own):
        found.overlaps.append(by_number[other.writer])
        by_number[other.writer].overlaps.append(found)
    by_number.append(found)
    index.add(own)
    return found


#: Whether accesses of two chains need no edge: (chain of the earlier, chain of the later).
Exempt = Callable[[int, int], bool]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The orders of one execution in another with the same accesses.

    same: whether every chain makes the same accesses; without it nothing else is known.
    lost, kept: pairs of accesses, by their numbers in the first, that are ordered in the first only
    and in both. unordered: how many pairs the first leaves unordered. partner: access number in the
    first -> in the second.
    """

    same: bool
    lost: Pairs = field(default_factory=lambda: _NO_PAIRS)
    kept: Pairs = field(default_factory=lambda: _NO_PAIRS)
    unordered: int = 0
    partner: Numbers = field(default_factory=lambda: _NO_PAIRS[:, 0])


def compare(first: Execution, second: Execution, exempt: Exempt) -> Comparison:
    """Which conflicting accesses ordered in `first` are not ordered in `second`."""
    partner = _partners(first, second)
    if partner is None:
        return Comparison(same=False)
    pairs = first.pairs()
    chains = np.array(first.graph.chain_of, dtype=np.int64)[first.events()]
    chosen = [exempt(a, b) for a, b in chains[pairs]]
    pairs = pairs[~np.array(chosen, dtype=bool)]
    before = first.graph.all_ordered(first.events()[pairs])
    after = second.graph.all_ordered(second.events()[partner[pairs]])
    return Comparison(
        same=True,
        lost=pairs[before & ~after],
        kept=pairs[before & after],
        unordered=int(np.count_nonzero(~before)),
        partner=partner,
    )


def _partners(first: Execution, second: Execution) -> Numbers | None:
    """Access number in `first` -> in `second`; None when the chains' accesses differ."""
    mine, theirs = first.by_chain(), second.by_chain()
    if {c: len(v) for c, v in mine.items()} != {c: len(v) for c, v in theirs.items()}:
        return None
    partner = np.zeros(len(first.accesses), dtype=np.int64)
    for chain, own in mine.items():
        for a, b in zip(own, theirs[chain]):
            if first.accesses[a].key != second.accesses[b].key:
                return None
            partner[a] = b
    return partner
