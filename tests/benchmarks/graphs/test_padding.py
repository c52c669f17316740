"""The traces are what their documentation says, and planned sizes halve the padding on each."""

from __future__ import annotations

import json
import statistics
import sys
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.graphs.__main__ import main
from benchmarks.graphs.padding import compare, default_plan
from benchmarks.graphs.traces import MAX_BATCH, STEPS, TRACES


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_is_repeatable_and_within_the_scheduler(name: str) -> None:
    sizes = TRACES[name](3)
    assert sizes == TRACES[name](3) != TRACES[name](4)
    assert STEPS * 0.9 < len(sizes) <= STEPS
    assert min(sizes) >= 1 and max(sizes) <= MAX_BATCH


def test_steady_load_obeys_littles_law() -> None:
    means = [statistics.mean(TRACES["steady"](seed)) for seed in range(8)]
    assert statistics.mean(means) == pytest.approx(100, rel=0.05)
    assert statistics.pstdev(TRACES["steady"](1)) < 20


def test_bursts_have_two_modes() -> None:
    steps = Counter(TRACES["bursty"](1))
    quiet, between, burst = (
        sum(steps[size] for size in range(low, low + 30)) for low in (10, 80, 150)
    )
    assert quiet > 3 * between and burst > between


def test_a_long_tail_is_skewed_and_reaches_the_limit() -> None:
    sizes = sorted(TRACES["long tail"](1))
    assert sizes[-1] == MAX_BATCH
    assert statistics.mean(sizes) > 1.1 * statistics.median(sizes)


@pytest.mark.parametrize("name", TRACES)
@pytest.mark.parametrize("graphs", [35, 13])
def test_planned_sizes_pad_at_most_half(name: str, graphs: int) -> None:
    result = compare(name, TRACES[name], graphs, seed=1, held_out=1)
    assert len(result.sizes) <= graphs == len(default_plan(graphs).sizes)
    assert result.ratio <= 0.5
    assert len(result.held_out) == 1 and result.held_out[0] < 1


def test_the_default_plan() -> None:
    assert default_plan(35).sizes[:5] == (1, 2, 4, 8, 16)
    for graphs in (2, 13, 35):
        plan = default_plan(graphs)
        assert (plan.sizes[0], plan.largest, len(plan.sizes)) == (1, MAX_BATCH, graphs)


def test_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = tmp_path / "results" / "padding.json"
    words = ["padding", "--graphs", "5", "--held-out", "0", "--json", str(figures)]
    monkeypatch.setattr(sys, "argv", ["benchmarks.graphs", *words])
    main()
    found = json.loads(figures.read_text())
    assert [entry["trace"] for entry in found["comparisons"]] == list(TRACES)
    assert "long tail" in capsys.readouterr().out
