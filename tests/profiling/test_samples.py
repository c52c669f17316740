"""Any folder of real profiler files, named by a variable: all of them parse, none is unknown."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest

from profiling import read_profile
from profiling.files.cells import MISSING

_FOLDER = os.environ.get("ASCEND_INFER_PROFILE_SAMPLES", "")
pytestmark = pytest.mark.skipif(not _FOLDER, reason="ASCEND_INFER_PROFILE_SAMPLES names no folder")


def test_every_cell_is_the_one_in_the_file() -> None:
    """Compared with the standard library's reader, cell by cell, as text or as a number."""
    profile = read_profile(_FOLDER)
    assert profile.tables
    for table in profile.tables:
        assert all(column.known for column in table.columns), table.file
        with Path(table.file).open(encoding="utf-8-sig", newline="") as stream:
            lines = {reader.line_num: cells for reader in [csv.reader(stream)] for cells in reader}
        for row in table.rows:
            for column, ours, theirs in zip(
                table.columns, row.cells, lines[row.line], strict=False
            ):
                place = f"{table.file}:{row.line} {column.name}"
                text = theirs.strip().strip('"')
                if ours is None:
                    assert theirs.strip().lower() in MISSING, place
                elif isinstance(ours, str):
                    assert ours == text, place
                else:
                    assert float(ours) == float(text), place
        assert len(table.rows) >= len(lines) - 2, table.file
