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
        "overlaps",
        "pitch",
        "readers",
        "row_bytes",
        "rows",
        "start",
        "stop",
        "write_clock",
        "write_site",
        "writer",
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
        """Whether the two ranges share a byte; exact for runs and for boxes of one pitch."""
        if self.start >= other.stop or other.start >= self.stop:
            return False
        if self.rows == 1:
            return other.rows == 1 or other.has_byte_in(self.start, self.stop)
        if other.rows == 1:
            return self.has_byte_in(other.start, other.stop)
        if self.pitch != other.pitch:
            return True
        return self._meets_box(other)

    def has_byte_in(self, start: int, stop: int) -> bool:
        """Whether a row of this box has a byte in [start, stop)."""
        first = max(0, -(-(start - self.start - self.row_bytes + 1) // self.pitch))
        return first < self.rows and self.start + first * self.pitch < stop

    def _meets_box(self, other: Cell) -> bool:
        pitch = self.pitch
        row, column = divmod(self.start, pitch)
        other_row, other_column = divmod(other.start, pitch)
        if column + self.row_bytes <= pitch and other_column + other.row_bytes <= pitch:
            return (
                column < other_column + other.row_bytes
                and other_column < column + self.row_bytes
                and row < other_row + other.rows
                and other_row < row + self.rows
            )
        starts = (self.start + i * pitch for i in range(self.rows))
        return any(other.has_byte_in(start, start + self.row_bytes) for start in starts)


class ShadowMemory:
    """Cells of one memory, and which of its bytes the current block has written.

    Normally a cell's `written_in` says it all. Once an instruction leaves only part of a range written,
    the memory switches to one bit per byte until the block ends.
    """

    def __init__(self, name: str, size: int = 0) -> None:
        self.name = name
        self.size = size
        self.cells: dict[tuple[int, int, int, int], Cell] = {}
        self._bits: npt.NDArray[np.bool_] | None = None

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

    # ------------------------------------------------------------------ written bytes

    @property
    def by_bits(self) -> bool:
        """Whether the block has left some range partly written."""
        return self._bits is not None

    def start_block(self) -> None:
        """Nothing is written yet."""
        self._bits = None

    def is_written(self, cell: Cell, serial: int) -> bool:
        """Whether block `serial` has written every byte of `cell`; remembers a yes."""
        if cell.written_in == serial:
            return True
        if self._bits is None:
            for other in cell.overlaps:
                if (
                    other.written_in == serial
                    and other.rows == 1
                    and other.start <= cell.start
                    and cell.stop <= other.stop
                ):
                    cell.written_in = serial
                    return True
        if self.bits(cell, serial).all():
            cell.written_in = serial
            return True
        return False

    def bits(self, cell: Cell, serial: int) -> npt.NDArray[Any]:
        """The written bits of a cell as rows x row_bytes: a copy, or a view in `by_bits` mode."""
        if self._bits is not None:
            return _rows_of(self._bits, cell, 0)
        covered = np.zeros(max(other.stop for other in cell.overlaps) - cell.start, dtype=bool)
        base = cell.start
        for other in cell.overlaps:
            if other.written_in != serial:
                continue
            for row in range(other.rows):
                start = other.start + row * other.pitch - base
                covered[max(start, 0) : max(start + other.row_bytes, 0)] = True
        return _rows_of(covered, cell, base)

    def switch_to_bits(self, serial: int) -> None:
        """From now on every byte has its own bit."""
        if self._bits is not None:
            return
        bits = np.zeros(self.size, dtype=bool)
        for cell in self.cells.values():
            if cell.written_in == serial:
                _rows_of(bits, cell, 0)[...] = True
        self._bits = bits


def _rows_of(bits: npt.NDArray[np.bool_], cell: Cell, base: int) -> npt.NDArray[Any]:
    start = cell.start - base
    if cell.rows == 1:
        return bits[start : start + cell.row_bytes].reshape(1, -1)
    return np.lib.stride_tricks.as_strided(
        bits[start:], (cell.rows, cell.row_bytes), (cell.pitch, 1), writeable=True
    )
