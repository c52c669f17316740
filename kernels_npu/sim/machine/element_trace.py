"""What the scalar unit did to single elements of an on-chip memory, kept densely."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kernels_npu.sim.machine.cells import Cell

Records = npt.NDArray[np.int64]

_SITE_BITS = 24


def record_of(clock: int, site: int) -> int:
    """The record of an access: the unit's clock with the site in its low bits.

    The latest of several records is the greatest.
    """
    return clock << _SITE_BITS | site


class ElementTrace:
    """The scalar unit's last write and last read of every `granule` bytes of one memory.

    Elements are not smaller than a granule and start on one, so an access that shares a granule
    with an element shares a byte with it.
    """

    def __init__(self, size: int, granule: int) -> None:
        self._granule = granule
        self._writes: Records = np.zeros(-(-size // granule), dtype=np.int64)
        self._reads: Records = np.zeros(-(-size // granule), dtype=np.int64)
        #: bytes of the buffers whose elements are touched
        self._buffers: set[tuple[int, int]] = set()
        #: the unit's time at its last write and read
        self.last_write = 0
        self.last_read = 0

    def buffer(self, address: int, count: int, itemsize: int, *, write: bool) -> Records:
        """The records of a buffer: one per element, or a row of several per element."""
        self._buffers.add((address, address + count * itemsize))
        records = self._writes if write else self._reads
        per_element = itemsize // self._granule
        first = address // self._granule
        part = records[first : first + count * per_element]
        return part if per_element == 1 else part.reshape(-1, per_element)

    def meets(self, cell: Cell) -> bool:
        """Whether `cell` shares a byte with a buffer whose elements are touched."""
        return any(
            cell.start < stop
            and start < cell.stop
            and (cell.rows == 1 or cell.has_byte_in(start, stop))
            for start, stop in self._buffers
        )

    def newer_write(self, cell: Cell, known: int) -> int:
        """Site of a write in `cell` after the scalar unit's time `known`, or -1."""
        return self._newer(self._writes, cell, known) if self.last_write > known else -1

    def newer_read(self, cell: Cell, known: int) -> int:
        """Site of a read in `cell` after the scalar unit's time `known`, or -1."""
        return self._newer(self._reads, cell, known) if self.last_read > known else -1

    def _newer(self, records: Records, cell: Cell, known: int) -> int:
        latest = self._latest(records, cell)
        return latest & ((1 << _SITE_BITS) - 1) if latest >> _SITE_BITS > known else -1

    def _latest(self, records: Records, cell: Cell) -> int:
        """The greatest record in `cell`."""
        size = self._granule
        if cell.pitch % size:
            starts = (cell.start + row * cell.pitch for row in range(cell.rows))
            return max(
                int(records[s // size : -(-(s + cell.row_bytes) // size)].max()) for s in starts
            )
        first = cell.start // size
        width = -(-(cell.start % size + cell.row_bytes) // size)
        if cell.rows == 1:
            return int(records[first : first + width].max())
        pitch = cell.pitch // size
        boxes = np.lib.stride_tricks.as_strided(
            records[first:], (cell.rows, width), (pitch * records.itemsize, records.itemsize)
        )
        return int(boxes.max())
