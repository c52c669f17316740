"""Byte ranges of a memory with what was last done to them, and an index of ranges by position."""

from __future__ import annotations


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
        if self.pitch == other.pitch:
            return self._meets_box(other)
        mine, others = self._rows_in(other), other._rows_in(self)
        return (
            self._meets_rows(other, mine)
            if len(mine) <= len(others)
            else other._meets_rows(self, others)
        )

    def covers(self, start: int, stop: int) -> bool:
        """Whether this range is a run that holds all of [start, stop)."""
        return self.rows == 1 and self.start <= start and stop <= self.stop

    def has_byte_in(self, start: int, stop: int) -> bool:
        """Whether a row of this box has a byte in [start, stop)."""
        first = max(0, -(-(start - self.start - self.row_bytes + 1) // self.pitch))
        return first < self.rows and self.start + first * self.pitch < stop

    def _rows_in(self, other: Cell) -> range:
        """The starts of the rows of this box that share a byte with the span of `other`."""
        first = max(0, -(-(other.start - self.start - self.row_bytes + 1) // self.pitch))
        last = min(self.rows, -(-(other.stop - self.start) // self.pitch))
        return range(self.start + first * self.pitch, self.start + last * self.pitch, self.pitch)

    def _meets_rows(self, other: Cell, starts: range) -> bool:
        row_bytes = self.row_bytes
        return any(other.has_byte_in(start, start + row_bytes) for start in starts)

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
        return self._meets_rows(other, self._rows_in(other))


#: Ranges shorter than 2**_FINEST bytes share one level of the index.
_FINEST = 6


class CellIndex:
    """Cells by position: one level per power of two of length, at most two buckets per piece.

    A box is one piece, its span, or, once there are more cells than it has rows, a piece per row:
    boxes that lie between each other's rows then do not come up for each other.
    """

    def __init__(self) -> None:
        self._levels: dict[int, dict[int, list[Cell]]] = {}
        self._count = 0

    def add(self, cell: Cell) -> None:
        """Make `cell` findable."""
        self._count += 1
        starts, length = self._pieces(cell)
        level = max(_FINEST, length.bit_length())
        buckets = self._levels.setdefault(level, {})
        for start in starts:
            first, last = start >> level, (start + length - 1) >> level
            for number in range(first, last + 1):
                buckets.setdefault(number, []).append(cell)

    def meeting(self, cell: Cell) -> list[Cell]:
        """The cells that share a byte with `cell`, each once."""
        starts, length = self._pieces(cell)
        near: dict[Cell, None] = {}
        for level, buckets in self._levels.items():
            for start in starts:
                first, last = start >> level, (start + length - 1) >> level
                if first == last:
                    near.update(dict.fromkeys(buckets.get(first, ())))
                elif last - first > len(buckets):
                    inside = (n for n in buckets if first <= n <= last)
                    near.update((c, None) for n in inside for c in buckets[n])
                else:
                    numbers = range(first, last + 1)
                    near.update((c, None) for n in numbers for c in buckets.get(n, ()))
        return [other for other in near if cell.meets(other)]

    def clear(self) -> None:
        """Forget all cells."""
        self._levels.clear()
        self._count = 0

    def _pieces(self, cell: Cell) -> tuple[range, int]:
        """The starts of the pieces of `cell`, and their length."""
        if 1 < cell.rows < self._count and cell.pitch >= 2 * cell.row_bytes:
            return range(cell.start, cell.stop, cell.pitch), cell.row_bytes
        return range(cell.start, cell.start + 1), cell.stop - cell.start
