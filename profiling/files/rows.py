"""Lines of a CSV file as rows: each row on its own, so that a damaged one costs only itself."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kernels_npu.errors import SourceLocation
from profiling.files.cells import NotThatQuantity, parse
from profiling.records.note import Note, Notes, Severity
from profiling.records.quantity import Value
from profiling.records.table import Column, Row

#: How much of a bad cell a message shows.
_SHOWN = 40
#: Lines of the longest row that is looked for: call stacks have some dozens.
_MOST_LINES = 500


def split_line(line: str) -> list[str] | None:
    """The cells of one line; None when its quotes do not close."""
    try:
        return next(csv.reader((line,), strict=True), [])
    except csv.Error:
        return None


def columns_named(header: Sequence[str]) -> list[str]:
    """The names in a header; the comma that ends msopprof's lines names nothing."""
    names = [name.strip() for name in header]
    while names and not names[-1]:
        names.pop()
    return names


@dataclass(frozen=True, kw_only=True)
class RowReader:
    """Turns lines into rows of the given columns and notes what does not fit.

    Args:
        file: as messages show it.
        columns: of the header, in its order.
        notes: where damage goes.
        multiline: whether quoted cells may hold line ends. Where they may not, an open quote is
            damage of its line.
    """

    file: str
    columns: tuple[Column, ...]
    notes: Notes
    multiline: bool = False

    def rows(self, lines: Sequence[str], first: int) -> Iterator[Row]:
        """The rows among `lines`, of which the first is line `first` of the file."""
        index = {column.key: place for place, column in enumerate(self.columns)}
        place = 0
        while place < len(lines):
            end = self._end(lines, place) if self.multiline else place + 1
            text = lines[place] if end == place + 1 else "\n".join(lines[place:end])
            if text.strip(" \t,"):
                cells = self._cells(text, first + place)
                if cells is not None:
                    yield Row(first + place, cells, index)
            place = end

    def _end(self, lines: Sequence[str], place: int) -> int:
        """The line after the row that begins at `place`: where its quotes close and it fits."""
        quotes = 0
        for end in range(place, min(place + _MOST_LINES, len(lines))):
            quotes += lines[end].count('"')
            if quotes % 2 == 0:
                cells = split_line("\n".join(lines[place : end + 1])) or ()
                return end + 1 if len(cells) == len(self.columns) else place + 1
        return place + 1

    def _cells(self, line: str, number: int) -> tuple[Value, ...] | None:
        cells = split_line(line)
        if cells is None:
            self._malformed("quotes that do not close", number)
            return None
        expected = len(self.columns)
        if len(cells) > expected and not any(map(str.strip, cells[expected:])):
            cells = cells[:expected]
        if len(cells) != expected:
            self._malformed(f"{len(cells)} cells under {expected} columns", number)
            return None
        return tuple(self._cell(*pair, number) for pair in zip(cells, self.columns, strict=True))

    def _cell(self, text: str, column: Column, number: int) -> Value:
        try:
            return parse(text, column.quantity)
        except NotThatQuantity:
            self.notes.add(
                Note(
                    code="AI-PROF-025",
                    what=f"{column.name}: {text[:_SHOWN]!r} is no {column.quantity}",
                    where=SourceLocation(self.file, number),
                    rule="such a cell holds a number or NA; it is read as NA",
                    fix="collect again, or correct the cell",
                    severity=Severity.DAMAGE,
                ),
                repeats=column.name,
            )
            return None

    def _malformed(self, what: str, number: int) -> None:
        self.notes.add(
            Note(
                code="AI-PROF-024",
                what=f"a row with {what}",
                where=SourceLocation(self.file, number),
                rule="a row has one cell per column; this one is left out, the others are read",
                fix="an interrupted analysis leaves half a line at the end: export again",
                severity=Severity.DAMAGE,
            )
        )
