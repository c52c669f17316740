"""Byte ranges of a memory with what was last done to them, and an index of ranges by position."""

from __future__ import annotations

from collections.abc import Iterator


class Cell:
    """`rows` pieces of `row_bytes` bytes, `pitch` apart, from byte `start` of a memory."""

    __slots__ = (
        "overlaps",
        "pitch",
        "readers",
        "rewritten",
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
        #: whether it was written more than once (both vector cores doing the same count as one)
        self.rewritten = False
        #: block number in which every byte was seen written, else -1
        self.written_in = -1

    @property
    def place(self) -> tuple[int, int, int, int]:
        """What tells one range from another."""
        return self.start, self.rows, self.row_bytes, self.pitch

    @property
    def written_once(self) -> bool:
        """Whether its bytes are those of a single write."""
        return not self.rewritten and not any(o.writer >= 0 for o in self.overlaps if o is not self)

    def meets(self, other: Cell) -> bool:
        """Whether the two ranges share a byte; exact for runs and for boxes of one pitch."""
        if self.start >= other.stop or other.start >= self.stop:
            return False
        if self.rows == 1:
            return other.rows == 1 or other.has_byte_in(self.start, self.stop)
        if other.rows == 1:
            return self.has_byte_in(other.start, other.stop)
        if self.pitch != other.pitch:
            return self._meets_rows(other) if self.rows <= other.rows else other._meets_rows(self)
        return self._meets_box(other)

    def covers(self, start: int, stop: int) -> bool:
        """Whether this range is a run that holds all of [start, stop)."""
        return self.rows == 1 and self.start <= start and stop <= self.stop

    def has_byte_in(self, start: int, stop: int) -> bool:
        """Whether a row of this box has a byte in [start, stop)."""
        first = max(0, -(-(start - self.start - self.row_bytes + 1) // self.pitch))
        return first < self.rows and self.start + first * self.pitch < stop

    def _meets_rows(self, other: Cell) -> bool:
        starts = (self.start + i * self.pitch for i in range(self.rows))
        return any(other.has_byte_in(start, start + self.row_bytes) for start in starts)

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
        return self._meets_rows(other)


#: Ranges shorter than 2**_FINEST bytes share one level of the index.
_FINEST = 6


class CellIndex:
    """Cells by position: one level per power of two of length, at most two buckets per cell."""

    def __init__(self) -> None:
        self._levels: dict[int, dict[int, list[Cell]]] = {}

    def add(self, cell: Cell) -> None:
        """Make `cell` findable."""
        level = max(_FINEST, (cell.stop - cell.start).bit_length())
        buckets = self._levels.setdefault(level, {})
        first, last = cell.start >> level, (cell.stop - 1) >> level
        for number in range(first, last + 1):
            buckets.setdefault(number, []).append(cell)

    def near(self, start: int, stop: int) -> Iterator[Cell]:
        """Every cell whose span shares a byte with [start, stop), each once, and few others."""
        for level, buckets in self._levels.items():
            first, last = start >> level, (stop - 1) >> level
            if last - first > len(buckets):
                numbers = [n for n in buckets if first <= n <= last]
            else:
                numbers = [n for n in range(first, last + 1) if n in buckets]
            for number in numbers:
                for cell in buckets[number]:
                    # A cell that lies in two buckets is yielded for the first of them in the range.
                    if number == max(first, cell.start >> level):
                        yield cell

    def clear(self) -> None:
        """Forget all cells."""
        self._levels.clear()
