"""Shadow state of a memory: who last touched a byte range, and whether it was ever written.

Ranges that a kernel touches repeat, so each distinct range is one `Cell` that knows which
other cells it overlaps; checking an access then costs a few integer compares and no array
work. Single elements of on-chip memory, of which a loop touches tens of thousands, are kept
densely instead (`ElementTrace`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kernels_npu.sim.machine.cells import Cell, CellIndex
from kernels_npu.sim.machine.element_trace import ElementTrace

__all__ = [
    "AGENTS_PER_CORE",
    "CORES",
    "CORES_PER_BLOCK",
    "PIPES",
    "PIPE_INDEX",
    "Cell",
    "ElementTrace",
    "Losses",
    "ShadowMemory",
]

PIPES = ("S", "MTE1", "MTE2", "MTE3", "M", "V", "FIX")
PIPE_INDEX = {name: index for index, name in enumerate(PIPES)}
#: Places per core: one per pipe and an empty one, so that the low three bits of an agent's number
#: are its pipe.
AGENTS_PER_CORE = 8
CORES = ("aic", "aiv0", "aiv1")
CORES_PER_BLOCK = len(CORES)


class Losses:
    """How often memories of a block lost data that had been written, or kept only part of it."""

    def __init__(self) -> None:
        self.count = 0


class ShadowMemory:
    """Cells of one memory, and which of its bytes the current block has written.

    Normally a cell's `written_in` says it all. Once an instruction leaves only part of a range
    written, the memory switches to one bit per byte until the block ends.
    """

    def __init__(self, name: str, size: int = 0, losses: Losses | None = None) -> None:
        self.name = name
        self.size = size
        self.losses = losses or Losses()
        self.cells: dict[tuple[int, int, int, int], Cell] = {}
        #: bytes behind compacted lists -> the block that left them so
        self.tails: dict[tuple[int, int], int] = {}
        self.elements: ElementTrace | None = None
        self._index = CellIndex()
        self._at: dict[tuple[int, int], list[Cell]] = {}
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
        for other in self._index.meeting(cell):
            cell.overlaps.append(other)
            other.overlaps.append(cell)
        self.cells[key] = cell
        self._index.add(cell)
        self._at.clear()
        return cell

    def at(self, start: int, stop: int) -> list[Cell]:
        """The cells that share a byte with [start, stop), a run that needs no cell of its own."""
        found = self._at.get((start, stop))
        if found is None:
            found = self._index.meeting(Cell(start, 1, stop - start, 0))
            self._at[(start, stop)] = found
        return found

    def holds(self, cell: Cell) -> bool:
        """Whether `cell` is a range of this memory."""
        return any(cell is known for known in self.cells.values())

    def trace(self, granule: int) -> ElementTrace:
        """The record of element accesses, made when the first site of them is bound.

        granule: the smallest element that any site of the memory's core touches, in bytes.
        """
        if self.elements is None:
            self.elements = ElementTrace(self.size, granule)
        return self.elements

    def forget(self) -> None:
        """Drop all cells (global memory, between blocks)."""
        self.cells.clear()
        self._index.clear()
        self._at.clear()

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
                if other.written_in == serial and other.covers(cell.start, cell.stop):
                    cell.written_in = serial
                    return True
        if self.bits(cell, serial).all():
            cell.written_in = serial
            return True
        return False

    def is_run_written(self, start: int, stop: int, serial: int) -> bool:
        """Whether block `serial` has written every byte of [start, stop)."""
        if self._bits is not None:
            return bool(self._bits[start:stop].all())
        written = [c for c in self.at(start, stop) if c.written_in == serial]
        if any(c.covers(start, stop) for c in written):
            return True
        return bool(written) and all(
            any(c.has_byte_in(b, b + 1) if c.rows > 1 else c.covers(b, b + 1) for c in written)
            for b in range(start, stop)
        )

    def mark_run(self, start: int, stop: int, serial: int) -> None:
        """Block `serial` writes the run [start, stop)."""
        if self._bits is None:
            if any(c.written_in == serial and c.covers(start, stop) for c in self.at(start, stop)):
                return
            self.switch_to_bits(serial)
        assert self._bits is not None
        self._bits[start:stop] = True

    def mark(self, cell: Cell, serial: int) -> None:
        """Block `serial` writes all of `cell`."""
        if cell.written_in != serial:
            cell.written_in = serial
            if self._bits is not None:
                self.bits(cell, serial)[...] = True

    def bits(self, cell: Cell, serial: int) -> npt.NDArray[Any]:
        """The written bits of a cell as rows x row_bytes: a copy, or a view in `by_bits` mode."""
        if self._bits is not None:
            return rows_of(self._bits, cell, 0)
        covered = np.zeros(cell.stop - cell.start, dtype=bool)
        base = cell.start
        for other in cell.overlaps:
            if other.written_in != serial:
                continue
            for row in range(other.rows):
                start = other.start + row * other.pitch - base
                covered[max(start, 0) : max(start + other.row_bytes, 0)] = True
        return rows_of(covered, cell, base)

    def lacks_padding_only(self, cell: Cell, serial: int) -> bool:
        """Whether all that `cell` lacks is the rest of 32-byte blocks that an instruction's result
        begins, or of a compacted list. What single elements leave out is no padding."""
        written = self.bits(cell, serial)
        tails = [span for span, when in self.tails.items() if when == serial]
        ends = {
            other.start + row * other.pitch + other.row_bytes
            for other in cell.overlaps
            if other.written_in == serial
            for row in range(other.rows)
        }
        for row, column in zip(*np.nonzero(~written)):
            address = cell.start + int(row) * cell.pitch + int(column)
            if any(start <= address < stop for start, stop in tails):
                continue
            if not any(end in ends for end in range(address // 32 * 32 + 1, address + 1)):
                return False
        return True

    def switch_to_bits(self, serial: int) -> None:
        """From now on every byte has its own bit."""
        if self._bits is not None:
            return
        bits = np.zeros(self.size, dtype=bool)
        for cell in self.cells.values():
            if cell.written_in == serial:
                rows_of(bits, cell, 0)[...] = True
        self._bits = bits

    @property
    def written_bits(self) -> npt.NDArray[np.bool_] | None:
        """One bit per byte, when the memory is in that mode."""
        return self._bits

    def byte_bits(self, serial: int) -> npt.NDArray[np.bool_]:
        """One bit per byte of the memory, to be read and changed in place."""
        self.switch_to_bits(serial)
        assert self._bits is not None
        return self._bits

    def mark_partly(self, cell: Cell, written: npt.NDArray[np.bool_], serial: int) -> None:
        """Block `serial` writes `cell`, with known data only where `written` is set."""
        self.switch_to_bits(serial)
        target = self.bits(cell, serial)
        target[...] = written.reshape(target.shape)
        self.lose(cell)

    def lose(self, cell: Cell) -> None:
        """Some byte of `cell` no longer holds written data; the bits say which."""
        self.losses.count += 1
        for other in cell.overlaps:
            other.written_in = -1

    def unmark(self, cell: Cell, serial: int) -> None:
        """What `cell` holds is lost."""
        self.mark_partly(cell, np.zeros((cell.rows, cell.row_bytes), dtype=bool), serial)


def rows_of(values: npt.NDArray[Any], cell: Cell, base: int) -> npt.NDArray[Any]:
    """The entries of `values`, one per byte from byte `base` on, as rows x row_bytes of `cell`."""
    start = cell.start - base
    if cell.rows == 1:
        return values[start : start + cell.row_bytes].reshape(1, -1)
    step = values.itemsize
    return np.lib.stride_tricks.as_strided(
        values[start:], (cell.rows, cell.row_bytes), (cell.pitch * step, step), writeable=True
    )
