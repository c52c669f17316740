"""Any folder of real profiler files, named by a variable: every cell is what the file has there."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest

from profiling import read_profile
from profiling.files.cells import MISSING
from profiling.records import FileKind

_FOLDER = os.environ.get("ASCEND_INFER_PROFILE_SAMPLES", "")
pytestmark = pytest.mark.skipif(not _FOLDER, reason="ASCEND_INFER_PROFILE_SAMPLES names no folder")


def cells_by_line(file: str) -> dict[int, list[str]]:
    """The rows as the standard library reads them, under the lines that they begin at."""
    cells, begin = {}, 1
    with Path(file).open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.reader(stream)
        for row in reader:
            cells[begin] = row
            begin = reader.line_num + 1
    return cells


def is_same(ours: object, theirs: str) -> bool:
    theirs = theirs.strip()
    if ours is None:
        return theirs.lower() in MISSING
    if isinstance(ours, str):
        return ours in (theirs, theirs.strip('"'))
    return float(ours) == float(theirs)  # type: ignore[arg-type]


def test_every_cell_is_the_one_in_the_file() -> None:
    profile = read_profile(_FOLDER)
    tables = [table for table in profile.tables if table.kind is not FileKind.UNKNOWN]
    assert tables
    for table in tables:
        unknown = [column.name for column in table.columns if not column.known]
        assert not unknown, table.file
        theirs = cells_by_line(table.file)
        for row in table.rows:
            for column, ours, text in zip(table.columns, row.cells, theirs[row.line], strict=False):
                assert is_same(ours, text), f"{table.file}:{row.line} {column.name}"
        # one row may be damaged, as in two of the public files
        assert len(table.rows) >= sum(any(row) for row in theirs.values()) - 2, table.file
