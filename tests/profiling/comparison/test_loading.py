"""What becomes of profiler files, ledgers and baselines."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels_npu.errors import UsageError
from kernels_npu.evidence import Evidence
from profiling import ledger
from profiling.comparison import Measurements, NoBaseline, baseline, load
from profiling.comparison.ledgers import metric_of
from tests.profiling import fixtures
from tests.profiling.comparison.builders import BYTES, COMPLETE, COUNTED, key, run


def figures(run: Measurements) -> dict[tuple[str, str], tuple[float, ...]]:
    return {(str(key.kernel), key.metric.name): values for key, values in run.series.items()}


def test_launches_of_msprof_op(tmp_path: Path) -> None:
    for launch in ("0", "1"):
        fixtures.write(tmp_path / "rms" / launch, fixtures.FLAT)
    (found,) = load([tmp_path])
    assert figures(found) == {("rms_norm_kernel_mix_aic 2 blocks", "task time"): (12.25, 12.25)}
    (where,) = found.where.values()
    assert where.endswith("rms/0/OpBasicInfo.csv:2")
    assert found.conditions.missing and "baseline" not in found.conditions.missing
    assert "2 of 2 launches ran below 95% of the rated clock" in found.remarks[0]


def test_tasks_are_known_by_name_shape_and_dtype(tmp_path: Path) -> None:
    fixtures.write(tmp_path, {"kernel_details.csv": fixtures.KERNEL_DETAILS_1})
    (named,) = load([tmp_path])
    assert figures(named)["MatMul1 32,3;3,7 FLOAT;FLOAT", "task time"] == (100.5,)
    (typed,) = load([tmp_path], by_type=True)
    assert figures(typed)["MatMulV2", "task time"] == (100.5,)
    assert "by their type" in typed.remarks[0]


def test_a_large_file_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("polars")
    fixtures.write(tmp_path, {"kernel_details.csv": fixtures.KERNEL_DETAILS_1})
    (small,) = load([tmp_path])
    monkeypatch.setattr("profiling.files.reading.LARGE", 100)
    (large,) = load([tmp_path])
    assert large == small and len(large.series) == 4


def test_times_of_zero_are_no_times(tmp_path: Path) -> None:
    details = fixtures.KERNEL_DETAILS_0.replace("50.621", "0").replace("6.5", "-1")
    details += "8,aclnnMul,N/A,N/A,1736405443881910.320\t,3.5,0,8\r\n"
    fixtures.write(tmp_path, {"kernel_details.csv": details})
    (found,) = load([tmp_path])
    assert figures(found) == {("aclnnMul", "task time"): (3.5,)}
    assert found.remarks == ("2 measured samples of zero or less are left out",)


def test_counts_of_the_vendors_simulator(tmp_path: Path) -> None:
    for core in ("core0.veccore0", "core1.veccore0"):
        name = f"attention/0/simulator/{core}/{core}_instr_exe.csv"
        fixtures.write(tmp_path, {name: fixtures.INSTRUCTIONS})
    (found,) = load([tmp_path])
    assert figures(found) == {
        ("attention", "instructions"): (18.0,),
        ("attention", "cycles of all instructions"): (6442.0,),
    }
    assert {key.evidence for key in found.series} == {Evidence.MODELLED}


def entry(name: str, when: str, conditions=COMPLETE, **values: float) -> ledger.Entry:
    return ledger.Entry(
        name=name,
        when=when,
        figures={"samples": 100, **values},
        evidence=Evidence.GPU_MEASURED,
        conditions=conditions,
    )


def test_entries_of_one_name_are_runs(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    for number in range(3):
        ledger.append(path, entry("rms_norm", f"2026-01-0{number + 1}", median_us=10.0 + number))
    ledger.append(path, entry("attention", "2026-01-01", median_us=50.0, share_of_copy=0.8))
    with path.open("a") as stream:
        stream.write("torn\n")
    first, second, third = load([path])
    assert figures(first)["rms_norm", "median_us"] == (10.0,)
    assert figures(first)["attention", "share_of_copy"] == (0.8,)
    assert figures(third) == {("rms_norm", "median_us"): (12.0,)}
    assert next(iter(third.where.values())).endswith(":3")
    assert [note.code for note in (*first.notes, *second.notes)] == ["AI-BENCH-023"]


def test_other_conditions_make_another_run(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    for software in ("a", "b"):
        changed = dataclasses.replace(COMPLETE, software=software)
        ledger.append(path, entry(f"op {software}", "2026", changed, median_us=1.0))
    assert [run.conditions.software for run in load([path])] == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "unit", "better"),
    [
        ("median_us", "us", "less"),
        ("ttft_ms", "ms", "less"),
        ("moved_bytes", "bytes", "less"),
        ("share_of_copy", "", "more"),
        ("output_tokens_per_s", "", "more"),
        ("goodput", "", "more"),
        ("phase_of_moon", "", "unknown"),
    ],
)
def test_the_name_of_a_figure_tells_its_direction(name: str, unit: str, better: str) -> None:
    metric = metric_of(name)
    assert metric is not None and (metric.unit, metric.better) == (unit, better)


def test_how_something_was_measured_is_not_compared() -> None:
    assert metric_of("samples") is None


SAMPLES = st.lists(st.floats(1e-6, 1e12), min_size=1, max_size=5).map(tuple)


@given(st.lists(SAMPLES, min_size=1, max_size=4), st.text(max_size=20))
@settings(max_examples=20, deadline=None)
def test_a_baseline_reads_as_it_was_written(tmp_path_factory, series, name: str) -> None:
    path = tmp_path_factory.mktemp("baseline") / "baseline.json"
    written = [run({key(name): samples, key(metric=BYTES): samples}) for samples in series]
    baseline.write(path, written, "2026-01-01T00:00:00Z")
    again = load([path])
    assert [run.series for run in again] == [run.series for run in written]
    assert [run.conditions for run in again] == [run.conditions for run in written]
    assert next(iter(again[0].where.values())) == f"{path}:2"


def test_a_baseline_of_many_launches_stays_small_and_true(tmp_path: Path) -> None:
    many, count = tuple(1.0 + i / 1e5 for i in range(100_000)), key(metric=BYTES, evidence=COUNTED)
    path = tmp_path / "baseline.json"
    baseline.write(path, [run({key(): many, count: (5.0,) * 1000})], "2026")
    (found,) = baseline.read(path)
    assert len(found.series[key()]) == baseline.MOST_SAMPLES
    assert (min(found.series[key()]), max(found.series[key()])) == (many[0], many[-1])
    assert len(found.series[count]) == 1000


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: text.split("\n")[0],
        lambda text: text.replace('"npu-measured"', '"guessed"'),
        lambda text: text.replace("12.5", "NaN"),
        lambda text: text.replace('baseline": 1', 'baseline": 2'),
        lambda text: text.replace("[[12.5]]", "[[12.5], [3]]"),
        lambda text: text.replace("[[12.5]]", '[["fast"]]'),
        lambda text: "[" * 100_000,
    ],
)
def test_a_damaged_baseline_is_none(tmp_path: Path, damage) -> None:
    path = tmp_path / "baseline.json"
    baseline.write(path, [run({key(): (12.5,)})], "2026")
    path.write_text(damage(path.read_text()))
    with pytest.raises(NoBaseline, match="AI-BENCH-022"):
        baseline.read(path)


def test_a_baseline_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    path.mkdir()
    with pytest.raises(UsageError, match="AI-CLI-004"):
        baseline.write(path, [run((1,))], "2026")
    assert [p.name for p in tmp_path.iterdir()] == ["baseline.json"]


def test_a_ledger_of_nothing(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_text("no entry\n")
    with pytest.raises(UsageError, match="AI-BENCH-006"):
        load([path])


def test_conditions_of_a_file(tmp_path: Path) -> None:
    from profiling import conditions

    path = tmp_path / "conditions.json"
    path.write_text(json.dumps({"hardware": "1 x 910B2", "load": "1"}))
    found = conditions.read(path)
    assert found.hardware == "1 x 910B2" and len(found.missing) == 10
    assert found.or_else(COMPLETE).load == "1"
    assert found.or_else(COMPLETE).missing == ()
    for text in ('{"wheather": "fine"}', "[]", "{", "[" * 100_000):
        path.write_text(text)
        with pytest.raises(UsageError, match="AI-BENCH-024"):
            conditions.read(path)
