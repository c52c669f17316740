"""A CSV file of any kind as a table."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from kernels_npu.errors import SourceLocation
from profiling.files.catalogue import UNKNOWN, format_of
from profiling.files.formats import Format
from profiling.files.rows import RowReader, columns_named, split_line
from profiling.files.sources import Source
from profiling.files.text import decode, lines_of
from profiling.records.note import Note, Notes, Severity
from profiling.records.table import Column, Table


def read_table(source: Source, notes: Notes) -> Table | None:
    """The file as a table; None when it holds nothing. What is wrong goes to `notes`.

    Raises:
        OSError, zipfile.BadZipFile: the bytes cannot be read.
    """
    lines = lines_of(decode(source.read(), source.name, notes))
    head = header_of(lines, source, notes)
    if head is None:
        return None
    line, format, columns = head
    reader = RowReader(file=source.name, columns=columns, notes=notes, multiline=format.multiline)
    rows = tuple(reader.rows(lines[line:], first=line + 1))
    if not rows:
        notes.add(_without_rows(source.name, line))
    return Table(kind=format.kind, file=source.name, columns=columns, rows=rows)


def header_of(
    lines: list[str], source: Source, notes: Notes
) -> tuple[int, Format, tuple[Column, ...]] | None:
    """The header's line number, the format that it tells, and its columns."""
    named = ((number, _names(line)) for number, line in enumerate(lines, start=1))
    number, names = next((head for head in named if head[1]), (0, []))
    if not names:
        notes.add(_empty(source.name))
        return None
    format = format_of(names, source.stem)
    columns = _unique(
        [format.column(name, source.evidence) for name in names], source.name, number, notes
    )
    if format is UNKNOWN:
        notes.add(_unknown(source.name, number, names))
    missing = [key for key in format.needs if all(column.key != key for column in columns)]
    if missing:
        notes.add(_missing(source.name, number, format, missing))
    return number, format, columns


def _names(line: str) -> list[str]:
    return columns_named(split_line(line) or line.split(","))


def _unique(columns: list[Column], file: str, line: int, notes: Notes) -> tuple[Column, ...]:
    """Of columns with one key the first keeps it; the others are kept under a number."""
    seen: Counter[str] = Counter()
    unique = []
    for column in columns:
        seen[column.key] += 1
        count = seen[column.key]
        unique.append(replace(column, key=f"{column.key}#{count}") if count > 1 else column)
    repeated = [key for key, count in seen.items() if count > 1]
    if repeated:
        notes.add(
            Note(
                code="AI-PROF-028",
                what=f"columns that say the same: {', '.join(repeated)}",
                where=SourceLocation(file, line),
                rule="a file has each column once; the first of them is used",
                fix="compare both columns before you trust either",
            )
        )
    return tuple(unique)


def _empty(file: str) -> Note:
    return Note(
        code="AI-PROF-022",
        what="an empty file",
        where=file,
        rule="a profiler's file has a line of column names",
        fix="collect again; the profiler's log says why it wrote nothing",
        severity=Severity.DAMAGE,
    )


def _without_rows(file: str, line: int) -> Note:
    return Note(
        code="AI-PROF-022",
        what="a header and no row that can be read",
        where=SourceLocation(file, line),
        rule="a profiler's file has at least one row",
        fix="collect again; with msprof op, --kernel-name may have matched nothing",
        severity=Severity.DAMAGE,
    )


def _missing(file: str, line: int, format: Format, missing: list[str]) -> Note:
    return Note(
        code="AI-PROF-023",
        what=f"{format.kind} without the columns {', '.join(missing)}",
        where=SourceLocation(file, line),
        rule=f"columns are found by name, as {format.source} has them",
        fix="what needs these columns is left out; if they were renamed, report the header",
    )


def _unknown(file: str, line: int, names: list[str]) -> Note:
    return Note(
        code="AI-PROF-029",
        what=f"columns of no known kind of file: {', '.join(names)[:120]}",
        where=SourceLocation(file, line),
        rule="the rows are kept as they are, and no figure is taken from them",
        fix="report the header if a profiler wrote the file",
    )
