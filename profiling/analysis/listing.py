"""Which files a profile has, and which of their tables are shown row by row."""

from __future__ import annotations

from profiling.records import FileKind, Profile, Row, Table

#: Tables that are shown as they are, and the column that their rows are ordered by.
SHOWN = {
    FileKind.OP_STATISTIC: "total_time_us",
    FileKind.API_STATISTIC: "time_us",
    FileKind.STEP_TRACE: "",
    FileKind.INSTRUCTIONS: "cycles",
    FileKind.CODE: "cycles",
}
#: The simulator's time is a model's: cycles are what it counts.
HIDDEN = frozenset({"running_time_us"})


def files_of(profile: Profile) -> list[tuple[str, int, str, str]]:
    """Kind, rows, evidence and name of every file that was read."""
    rows = [(str(t.kind), len(t.rows), str(t.columns[0].evidence), t.file) for t in profile.tables]
    tables = {table.file for table in profile.tables}
    rows += [
        (str(tasks.kind), len(tasks), str(tasks.evidence), tasks.file)
        for tasks in profile.tasks
        if tasks.file not in tables
    ]
    rows += [("trace", len(t.spans), str(t.evidence), t.file) for t in profile.traces]
    return sorted(rows, key=lambda row: row[-1])


def ordered(table: Table) -> list[Row]:
    """The rows of a shown table, the largest first."""
    by = SHOWN[table.kind]
    return sorted(table.rows, key=lambda row: -(row.number(by) or 0.0)) if by else list(table.rows)
