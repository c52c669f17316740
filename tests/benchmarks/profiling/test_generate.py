"""Generated files are what a profiler could have written: steps of the sample's rows in order."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.profiling.__main__ import measure
from benchmarks.profiling.generate import generate
from profiling import read_profile
from profiling.analysis import step_use
from tests.profiling import fixtures


def test_rows_repeat_as_steps(tmp_path: Path) -> None:
    fixtures.write(tmp_path, {"sample.csv": fixtures.KERNEL_DETAILS_1})
    generate(tmp_path / "sample.csv", tmp_path / "kernel_details.csv", 4 * 25 + 2)
    profile = read_profile(tmp_path / "kernel_details.csv")
    assert not profile.notes
    rows = profile.tables[0].rows
    assert len(rows) == 102
    assert {row["op_type"] for row in rows[:4]} == {row["op_type"] for row in rows[-6:]}
    starts = [row["start_us"] for row in rows]
    assert starts == sorted(starts)  # type: ignore[type-var]
    assert [row["task_id"] for row in rows] == [str(number) for number in range(102)]
    steps = step_use(profile.tasks[0])
    assert [step.tasks for step in steps] == [4] * 25 + [2]
    first, second = rows[0].number("duration_us"), rows[4].number("duration_us")
    assert first is not None and second is not None
    assert 0.95 * 20.25 - 0.001 <= min(first, second) <= max(first, second) <= 20.25
    assert first != second


def test_a_process_is_measured(tmp_path: Path) -> None:
    code = "x = bytearray(64 << 20); print(sum(range(2_000_000)))"
    run = measure([sys.executable, "-c", code], tmp_path / "log.txt")
    assert run.peak_mib > 64 and run.wall_s > 0 and run.cpu_s > 0
    with pytest.raises(SystemExit, match="ended with 3"):
        measure([sys.executable, "-c", "raise SystemExit(3)"], tmp_path / "log.txt")
