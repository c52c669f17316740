"""Totals of operators and pipes against sums made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiling import read_profile
from profiling.analysis import core_times, operator_totals, pipe_use
from tests.profiling import fixtures
from tests.profiling.files.test_tasks import _HEADER, kernel_details


def test_operators(tmp_path: Path) -> None:
    import random

    lines = kernel_details(random.Random(9), 400)
    path = fixtures.write(tmp_path, {"kernel_details.csv": "\n".join([_HEADER, *lines])})
    profile = read_profile(path)
    totals = operator_totals(profile.tasks[0])
    rows = profile.tables[0].rows
    by_hand: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if row.number("duration_us") is not None:
            key = (row.text("op_type") or row.text("op_name"), row.text("core"))
            by_hand.setdefault(key, []).append(float(row["duration_us"]))  # type: ignore[arg-type]
    assert {(t.operator, t.core) for t in totals} == by_hand.keys()
    everything = sum(map(sum, by_hand.values()))
    for total in totals:
        durations = by_hand[total.operator, total.core]
        assert total.count == len(durations)
        assert total.total_us == pytest.approx(sum(durations))
        assert total.share == pytest.approx(sum(durations) / everything)
        assert (total.min_us, total.longest.value) == (min(durations), max(durations))
        longest = next(row for row in rows if row.line == total.longest.where.line)
        assert longest["duration_us"] == max(durations)
    assert [t.total_us for t in totals] == sorted((t.total_us for t in totals), reverse=True)


def test_pipes_of_a_mix_kernel_are_shares_of_the_cores_not_of_the_task(tmp_path: Path) -> None:
    (kernel,) = read_profile(fixtures.write(tmp_path, fixtures.FLAT)).kernels
    cores = core_times(kernel)
    assert [(c.block, c.core, c.side) for c in cores] == [
        ("0", "cube0", "aic"),
        ("0", "vector0", "aiv"),
        ("1", "cube0", "aic"),
        ("1", "vector0", "aiv"),
    ]
    use = {(u.side, u.pipe): u for u in pipe_use(cores)}
    mte2 = use["aiv", "mte2"]
    assert mte2.share == pytest.approx((9.0 + 4.25) / (10.0 + 5.0))
    assert (mte2.total, mte2.unit) == (13.25, "us")
    assert (mte2.busiest.value, mte2.busiest.where.line) == (9.0, 3)
    # what the file calls aiv_mte2_ratio is of the 12.25 us of the task
    assert cores[1].ratios["mte2"].value == pytest.approx(9.0 / 12.25, abs=1e-6)
    assert cores[1].share("mte2") == pytest.approx(0.9)


def test_a_chip_with_one_kind_of_core(tmp_path: Path) -> None:
    files = {"PipeUtilization.csv": fixtures.PIPE_310P}
    (kernel,) = read_profile(fixtures.write(tmp_path, files)).kernels
    (core,) = core_times(kernel)
    assert (core.core, core.side) == ("aicore", "aic")
    assert core.share("vec") == pytest.approx(0.2)
