"""The gate: everything that it must fail over, and what it lets pass."""

from __future__ import annotations

import pytest

from profiling.comparison import Better, Gate, Measurements, Metric, State, Verdict, compare, judge
from tests.profiling.comparison.builders import BYTES, COUNTED, key, run, runs, unknown

pytest.importorskip("scipy")


def gate(before: list[Measurements], after: list[Measurements], threshold: float = 0.05) -> Gate:
    return judge(compare(before, after), threshold)


def state(found: Gate) -> State:
    (finding,) = found.findings
    return finding.state


STEADY = (100, 100.5, 99.5, 100.2)


@pytest.mark.parametrize(
    ("after", "expected", "passed"),
    [
        ((110, 110.5, 109.5), State.REGRESSION, False),
        ((103, 103.2, 102.9), State.PASSED, True),
        ((80, 80.2, 79.9), State.IMPROVED, True),
        ((60, 200, 110), State.PASSED, True),
        ((130,), State.UNKNOWN, False),
        ((101,), State.PASSED, True),
    ],
)
def test_times(after: tuple[float, ...], expected: State, passed: bool) -> None:
    found = gate(runs(STEADY), runs(after))
    assert (state(found), found.passed) == (expected, passed)


def test_a_threshold_below_what_is_called_the_same() -> None:
    found = gate(runs([100, 100.1] * 30), runs([100.7, 100.8] * 30), threshold=0.005)
    (finding,) = found.findings
    assert finding.matched is not None and finding.matched.difference.verdict is Verdict.SAME
    assert finding.state is State.REGRESSION


def test_noise_that_would_hide_a_regression_is_told() -> None:
    (finding,) = gate(runs(STEADY), runs((60, 200, 110))).findings
    assert "too noisy for this threshold" in finding.why


def test_counts_fail_by_the_threshold_alone() -> None:
    count = key(metric=BYTES, evidence=COUNTED)

    def counted(after: float) -> State:
        return state(gate([run({count: (1000,)})], [run({count: (after,)})]))

    assert counted(1051) is State.REGRESSION
    assert counted(1050) is State.PASSED
    assert counted(900) is State.IMPROVED


def test_a_figure_of_which_more_is_better() -> None:
    share = key(metric=Metric(name="share_of_copy", unit="", better=Better.MORE), evidence=COUNTED)

    def after(value: float) -> State:
        return state(gate([run({share: (0.8,)})], [run({share: (value,)})]))

    assert after(0.7) is State.REGRESSION
    assert after(0.9) is State.IMPROVED
    assert after(0.0) is State.REGRESSION


def test_a_figure_without_a_known_direction_is_not_judged() -> None:
    odd = key(metric=unknown("temperature"))
    found = gate([run({odd: (1, 1.01)})], [run({odd: (9, 9.01)})])
    assert state(found) is State.UNJUDGED and found.passed


def test_a_vanished_kernel_fails_and_a_new_one_is_listed() -> None:
    both = {key("both"): (1.0, 1.01)}
    vanished = gate([run({**both, key("gone"): (1, 1)})], [run(both)])
    assert not vanished.passed and vanished.findings[0].state is State.VANISHED
    new = gate([run(both)], [run({**both, key("more"): (1, 1)})])
    assert new.passed and new.findings[-1].state is State.NEW


def test_another_evidence_level_fails_once() -> None:
    found = gate([run({key(): (1.0, 1.0)})], [run({key(evidence=COUNTED): (1.0,)})])
    assert state(found) is State.EVIDENCE and not found.passed


def test_nothing_to_compare_is_a_failure() -> None:
    assert not gate([run({})], [run({})]).passed
    assert not gate([run({})], [run({key(): (1.0, 1.0)})]).passed
