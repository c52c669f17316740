"""Shadow state of a memory: who last touched a byte range, and whether it was ever written.

Ranges that a kernel touches repeat, so each distinct range is one `Cell` that knows which other cells
it overlaps; checking an access then costs a few integer compares and no array work.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

#: Agents of a block: 3 cores x 8 pipes.
PIPES = ("S", "MTE1", "MTE2", "MTE3", "M", "V", "FIX")
PIPE_INDEX = {name: index for index, name in enumerate(PIPES)}
AGENTS_PER_CORE = 8
CORES = ("aic", "aiv0", "aiv1")
AGENT_COUNT = AGENTS_PER_CORE * len(CORES)


class Cell:
    """`rows` pieces of `row_bytes` bytes, `pitch` apart, from byte `start` of a memory."""

    __slots__ = (
        "start",
        "stop",
        "rows",
        "row_bytes",
        "pitch",
        "overlaps",
        "writer",
        "write_clock",
        "write_site",
        "readers",
        "written_in",
    )

    def __init__(self, start: int, rows: int, row_bytes: int, pitch: int) -> None:
        self.start = start
        self.rows = rows
        self.row_bytes = row_bytes
        self.pitch = pitch
        self.stop = start + (rows - 1) * pitch + row_bytes
        self.overlaps: list[Cell] = [self]
        self.writer = -1
        self.write_clock = 0
        self.write_site = -1
        #: agent -> (clock, site) of its last read since the last write
        self.readers: dict[int, tuple[int, int]] = {}
        #: block number in which every byte was seen written, else -1
        self.written_in = -1

    def meets(self, other: Cell) -> bool:
        """Whether the two ranges share a byte; exact for equal pitches and for runs."""
        if self.start >= other.stop or other.start >= self.stop:
            return False
        if self.rows == 1 and other.rows == 1:
            return True
        if self.pitch == other.pitch or self.rows == 1 or other.rows == 1:
            return _strided_overlap(self, other)
        return True


def _strided_overlap(a: Cell, b: Cell) -> bool:
    """Overlap of two boxes of rows with one pitch; a run counts as rows of the other's pitch."""
    if a.rows == 1:
        a, b = b, a
    pitch = a.pitch
    for row in range(a.rows):
        start = a.start + row * pitch
        stop = start + a.row_bytes
        if b.rows == 1:
            if start < b.stop and b.start < stop:
                return True
            continue
        # first row of b that ends after `start`
        first = max(0, -(-(start - b.start - b.row_bytes + 1) // pitch))
        if first < b.rows and b.start + first * pitch < stop:
            return True
    return False


class ShadowMemory:
    """Cells of one memory, and one written bit per byte when `size` is given."""

    def __init__(self, name: str, size: int = 0) -> None:
        self.name = name
        self.cells: dict[tuple[int, int, int, int], Cell] = {}
        self.written: npt.NDArray[np.bool_] | None = np.zeros(size, dtype=bool) if size else None

    def cell(self, start: int, rows: int, row_bytes: int, pitch: int) -> Cell:
        """The cell of a range, created with its overlaps when first seen."""
        if rows == 1 or pitch == row_bytes:
            rows, row_bytes, pitch = 1, rows * row_bytes, 0
        key = (start, rows, row_bytes, pitch)
        found = self.cells.get(key)
        if found is not None:
            return found
        cell = Cell(start, rows, row_bytes, pitch)
        for other in self.cells.values():
            if cell.meets(other):
                cell.overlaps.append(other)
                other.overlaps.append(cell)
        self.cells[key] = cell
        return cell

    def forget(self) -> None:
        """Drop all cells (global memory, between blocks)."""
        self.cells.clear()

    def bits(self, cell: Cell) -> npt.NDArray[Any]:
        """The written bits of a cell as rows x row_bytes."""
        assert self.written is not None
        if cell.rows == 1:
            return self.written[cell.start : cell.start + cell.row_bytes].reshape(1, -1)
        flat = self.written[cell.start : cell.start + cell.rows * cell.pitch]
        return np.lib.stride_tricks.as_strided(
            flat, (cell.rows, cell.row_bytes), (cell.pitch, 1), writeable=True
        )
