"""Whole applications: operators, steps, and the totals that profilers write themselves."""

from __future__ import annotations

from collections.abc import Iterator

from profiling import analysis
from profiling.analysis.listing import HIDDEN, SHOWN, ordered
from profiling.records import FileKind, Profile, Row, Table, Tasks
from profiling.report.view import (
    Cell,
    Grid,
    Section,
    figure_cell,
    limited,
    number_cell,
    origin,
    text_cell,
)

_OPERATORS = (
    *("operator", "core", "tasks", "total, us", "share", "mean, us", "shortest, us"),
    *("longest, us", "from"),
)


def task_sections(profile: Profile, most: int) -> Iterator[Section]:
    """A section for each file of tasks."""
    for place, tasks in enumerate(profile.tasks):
        yield Section(
            anchor=f"tasks-{place}",
            title=tasks.file,
            lead=f"{tasks.kind}: {len(tasks):,} tasks, {tasks.evidence}.",
            sentences=tuple(analysis.task_sentences(tasks)),
            grids=(_operators(tasks, most),),
        )


def table_sections(profile: Profile, most: int) -> Iterator[Section]:
    """A section for each table of totals, instructions or source lines."""
    shown = [table for table in profile.tables if table.kind in SHOWN]
    for place, table in enumerate(shown):
        sentences = analysis.step_sentences(table) if table.kind is FileKind.STEP_TRACE else []
        yield Section(
            anchor=f"table-{place}",
            title=table.file,
            lead=f"{table.kind}, {table.columns[0].evidence}.",
            sentences=tuple(sentences[:most]),
            grids=(_rows(table, most),),
        )


def _operators(tasks: Tasks, most: int) -> Grid:
    rows = [
        (
            text_cell(total.operator),
            text_cell(total.core),
            number_cell(total.count),
            number_cell(total.total_us, origin=origin(total.longest)),
            number_cell(total.share, f"{total.share:.1%}"),
            number_cell(total.mean_us),
            number_cell(total.min_us),
            figure_cell(total.longest),
            text_cell(total.longest.where),
        )
        for total in analysis.operator_totals(tasks)
    ]
    kept, left_out = limited(rows, most)
    note = "Totals are sums of durations, whether tasks overlap or not; the place is the longest's."
    return Grid(title="Operators", columns=_OPERATORS, rows=kept, left_out=left_out, note=note)


def _rows(table: Table, most: int) -> Grid:
    keys = [key for key in table.by_key if key not in HIDDEN]
    rows = [
        (*(_cell(table, row, key) for key in keys), number_cell(row.line, str(row.line)))
        for row in ordered(table)[: most + 1]
    ]
    return Grid(
        title=str(table.kind),
        columns=(*(table.by_key[key].name for key in keys), "line"),
        rows=tuple(rows[:most]),
        left_out=max(0, len(table.rows) - most),
    )


def _cell(table: Table, row: Row, key: str) -> Cell:
    value = row.number(key)
    figure = table.figure(row, key)
    return text_cell(row.text(key)) if value is None else figure_cell(figure)
