"""Races between blocks that run one after another here and at the same time on the device.

Blocks are never ordered among each other (without `sync_all`): any byte of global memory that two
of them touch and one of them writes is a race. Each block leaves its accesses; they are compared
once, at the end of the launch, by sorting the rows of all ranges.

Blocks that write the same bytes to the same range do no harm, also not to a block that reads the
range after writing it itself. A digest per written range tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kernels_npu.sim.machine.cells import Cell
from kernels_npu.sim.machine.instruction import AnyArray
from kernels_npu.sim.machine.sites import Site

#: Overlapping rows examined per storage; beyond it, the count of a race is a lower bound.
_PAIR_LIMIT = 100_000

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class Touch:
    """One access of a block to global memory; digest: of the bytes that it wrote, if known."""

    block: int
    write: bool
    cell: Cell
    site: Site
    agent: int
    digest: int | None = None


#: Called with (storage group, earlier block's access, later block's access, whether both blocks
#: wrote equal bytes there).
PairSink = Callable[[int, Touch, Touch, bool], None]


class BlockAccesses:
    """The accesses of the blocks of one launch, by storage group."""

    def __init__(self) -> None:
        self._touches: dict[int, list[Touch]] = {}
        self._digests: dict[tuple[int, int, tuple[int, int, int, int]], int] = {}

    def add(
        self,
        group: int,
        block: int,
        cells: list[Cell],
        site_of: Callable[[int, int], Site],
        content: Callable[[int, Cell], AnyArray],
    ) -> None:
        """Take over what a block did to `group`.

        `site_of(agent, index)` finds its sites, `content(group, cell)` what it left in a range.
        """
        touches = self._touches.setdefault(group, [])
        for cell in cells:
            for agent, (_, index) in cell.readers.items():
                touches.append(Touch(block, False, cell, site_of(agent, index), agent))
            if cell.writer >= 0:
                site = site_of(cell.writer, cell.write_site)
                digest = None
                written = content(group, cell) if cell.written_once else None
                if written is not None and written.size:
                    digest = _fingerprint(written)
                    self._digests[(group, block, cell.place)] = digest
                touches.append(Touch(block, True, cell, site, cell.writer, digest))

    def report(self, sink: PairSink) -> None:
        """Call `sink` for pairs of accesses that race."""
        for group, touches in self._touches.items():
            for old, new in _racing(touches):
                sink(group, old, new, self._equal(group, old, new))

    def _equal(self, group: int, old: Touch, new: Touch) -> bool:
        """Whether both blocks wrote equal bytes to what one of the two accesses writes."""
        write, other = (old, new) if old.write else (new, old)
        known = self._digests.get((group, other.block, write.cell.place))
        return known is not None and known == write.digest


#: Random odd multipliers; as many are in use as the longest range has words.
_weights = np.zeros(0, dtype=np.uint64)


def _fingerprint(data: AnyArray) -> int:
    """A number that tells contents apart: a sum of 8-byte words with random weights.

    Several times as fast as a checksum of `zlib`, which counts: every stored byte passes here.
    """
    global _weights
    run = np.ascontiguousarray(data).reshape(-1)
    words = run[: run.size // 8 * 8].view(np.uint64)
    if words.size > _weights.size:
        random = np.random.default_rng(0)
        _weights = random.integers(0, 1 << 63, 2 * words.size, dtype=np.uint64) * 2 + 1
    total = int((words * _weights[: words.size]).sum())
    return hash((run.size, total, run[words.size * 8 :].tobytes()))


def _racing(touches: list[Touch]) -> Iterator[tuple[Touch, Touch]]:
    if not any(t.write for t in touches) or touches[0].block == touches[-1].block:
        return
    start, stop, owner = _rows(touches)
    block = np.array([t.block for t in touches], dtype=np.int64)[owner]
    write = np.array([t.write for t in touches], dtype=bool)[owner]
    seen: set[tuple[int, int]] = set()
    examined = 0
    for first, last in _suspicious(start, stop, block, write):
        for i, j in _pairs(first, last, start, stop, block, write):
            a, b = sorted((int(owner[i]), int(owner[j])))
            if (a, b) not in seen:
                seen.add((a, b))
                yield touches[a], touches[b]
            examined += 1
            if examined >= _PAIR_LIMIT:
                return


def _rows(touches: list[Touch]) -> tuple[Int64, Int64, Int64]:
    """All rows of all ranges, sorted by their first byte: start, stop, index of the touch."""
    rows = np.array([t.cell.rows for t in touches], dtype=np.int64)
    owner = np.repeat(np.arange(len(touches), dtype=np.int64), rows)
    number = np.arange(len(owner), dtype=np.int64) - np.repeat(np.cumsum(rows) - rows, rows)
    starts, pitches, widths = (
        np.array([getattr(t.cell, name) for t in touches], dtype=np.int64)[owner]
        for name in ("start", "pitch", "row_bytes")
    )
    start = starts + number * pitches
    order = np.argsort(start, kind="stable")
    start = start[order]
    return start, start + widths[order], owner[order]


def _suspicious(
    start: Int64, stop: Int64, block: Int64, write: npt.NDArray[np.bool_]
) -> Iterator[tuple[int, int]]:
    """Runs of overlapping rows [first, last) that belong to several blocks and hold a write."""
    reach = np.maximum.accumulate(stop)
    breaks = np.flatnonzero(start[1:] >= reach[:-1]) + 1
    firsts = np.concatenate(([0], breaks))
    several = np.minimum.reduceat(block, firsts) != np.maximum.reduceat(block, firsts)
    chosen = np.flatnonzero(several & np.logical_or.reduceat(write, firsts))
    ends = np.append(firsts[1:], len(start))
    for index in chosen:
        yield int(firsts[index]), int(ends[index])


def _pairs(
    first: int,
    last: int,
    start: Int64,
    stop: Int64,
    block: Int64,
    write: npt.NDArray[np.bool_],
) -> Iterator[tuple[int, int]]:
    """Overlapping rows of [first, last) of different blocks, one of which is a write."""
    here = slice(first, last)
    starts, stops, blocks = start[here], stop[here], block[here]
    reach = np.maximum.accumulate(stops)
    for i in np.flatnonzero(write[here]):
        low = int(np.searchsorted(reach, starts[i], side="right"))
        high = int(np.searchsorted(starts, stops[i], side="left"))
        meets = (stops[low:high] > starts[i]) & (blocks[low:high] != blocks[i])
        for j in np.flatnonzero(meets):
            yield first + int(i), first + low + int(j)
