"""What a page shows, before it is HTML: facts, plots, and tables whose cells know their place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from profiling.analysis import Sentence
from profiling.analysis.figures import digits
from profiling.records import Figure, Note


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A cell of a table.

    Args:
        text: what is shown.
        order: what the column is sorted by; the text where it is None.
        origin: evidence, file and line of a number, shown when one points at it.
        link: the anchor of the section that says more; empty when there is none.
    """

    text: str
    order: float | None = None
    origin: str = ""
    link: str = ""


RowOfCells: TypeAlias = tuple[Cell, ...]


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A table that sorts and filters.

    Args:
        title: what its rows are.
        columns: their names.
        rows: cells, one for each column.
        left_out: rows that are not shown.
        note: a sentence below it.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[RowOfCells, ...]
    left_out: int = 0
    note: str = ""

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Which columns hold numbers."""
        places = range(len(self.columns))
        return tuple(any(row[p].order is not None for row in self.rows) for p in places)


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A drawing.

    Args:
        title: what it shows.
        svg: the markup; all text in it is escaped.
        caption: how to read it, and its evidence.
        left_out: what is not drawn; empty when everything is.
    """

    title: str
    svg: str
    caption: str
    left_out: str = ""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A sentence that asks for a change, in short; `anchor` is where it stands with its figures."""

    anchor: str
    of: str
    sentence: Sentence


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of the page with a heading and an anchor."""

    anchor: str
    title: str
    lead: str = ""
    sentences: tuple[Sentence, ...] = ()
    findings: tuple[Finding, ...] = ()
    more_findings: int = 0
    plots: tuple[Plot, ...] = ()
    grids: tuple[Grid, ...] = ()
    sections: tuple[Section, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Fact:
    """A figure of the summary: its label, its value, and what it rests on."""

    label: str
    value: str
    origin: str


@dataclass(frozen=True, kw_only=True)
class Page:
    """A whole report.

    Args:
        title: of the page.
        path: what was read.
        made: when, UTC.
        headline: the conditions that are missing; empty when none is.
        evidence: the levels of its figures.
        facts: the summary's figures.
        sections: in order.
        notes: what was wrong with the files.
    """

    title: str
    path: str
    made: str
    headline: str
    evidence: tuple[str, ...]
    facts: tuple[Fact, ...]
    sections: tuple[Section, ...]
    notes: tuple[Note, ...]


def text_cell(text: object, origin: str = "", link: str = "") -> Cell:
    """A cell without a number."""
    return Cell(text=str(text), origin=origin, link=link)


def number_cell(value: float | None, shown: str = "", origin: str = "") -> Cell:
    """A cell with a number, `shown` as the caller wants it; a missing one stays empty."""
    if value is None or not math.isfinite(value):
        return Cell(text="")
    return Cell(text=shown or digits(value), order=value, origin=origin)


def figure_cell(figure: Figure | None) -> Cell:
    """A cell with a profiler's figure."""
    if figure is None:
        return Cell(text="")
    return number_cell(figure.number, origin=origin(figure))


def origin(figure: Figure) -> str:
    """Where a figure is from, and how it came to be known."""
    return f"{figure.where}, {figure.evidence}"


def limited(rows: Sequence[RowOfCells], most: int) -> tuple[tuple[RowOfCells, ...], int]:
    """The first rows, and how many are left out."""
    return tuple(rows[:most]), max(0, len(rows) - most)
