"""The statistic: what it finds, how often it is wrong, and when it says nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiling.comparison.statistic import beyond_noise, compare, typical

pytest.importorskip("scipy")
POSITIVE = st.floats(1e-3, 1e6)


def test_one_sample_has_no_interval() -> None:
    found = compare([10.0], [11.0, 12.0])
    assert found.ratio == pytest.approx(math.sqrt(11 * 12) / 10)
    assert found.low is found.high is found.p_value is None


def test_three_runs_show_a_large_difference_and_hide_a_small_one() -> None:
    before = [100.0, 101.0, 99.5]
    slower = compare(before, [120.0, 121.5, 119.0])
    assert slower.low is not None and 1.1 < slower.low < slower.ratio < 1.3
    alike = compare(before, [100.5, 99.0, 101.5])
    assert alike.low is not None and alike.high is not None and alike.low < 1 < alike.high


def test_a_first_slow_launch_does_not_decide() -> None:
    steady = np.random.default_rng(0).normal(100, 1, 50)
    cold = np.concatenate([[9000.0], steady])
    found = compare(list(steady), list(cold))
    assert found.low is not None and found.high is not None
    assert found.low < 1 < found.high and found.high - found.low < 0.02


def test_the_ratio_is_the_other_way_round_for_the_sides_exchanged() -> None:
    rng = np.random.default_rng(1)
    one, other = rng.lognormal(3, 0.1, 9), rng.lognormal(3.2, 0.2, 7)
    there, back = compare(one, other), compare(other, one)
    assert there.low is not None and back.high is not None
    assert there.ratio * back.ratio == pytest.approx(1)
    assert there.low * back.high == pytest.approx(1)


def test_samples_without_any_noise() -> None:
    assert compare([5.0] * 4, [5.0] * 3).p_value == 1.0
    found = compare([5.0] * 4, [6.0] * 3)
    assert (found.low, found.high, found.p_value) == (1.2, 1.2, 0.0)


@pytest.mark.parametrize("count", [3, 10, 60])
def test_the_interval_holds_the_truth_as_often_as_it_says(count: int) -> None:
    """Without a difference, five verdicts in a hundred would be chance."""
    rng = np.random.default_rng(count)
    trials, missed = 250, 0
    for _ in range(trials):
        found = compare(rng.lognormal(0, 0.05, count), rng.lognormal(0, 0.05, count))
        assert found.low is not None and found.high is not None
        missed += not found.low <= 1 <= found.high
    assert missed <= 0.09 * trials


def test_few_of_many_verdicts_are_chance() -> None:
    rng = np.random.default_rng(7)
    alike = [compare(rng.lognormal(0, 0.05, 5), rng.lognormal(0, 0.05, 5)) for _ in range(200)]
    p_values = [found.p_value for found in alike if found.p_value is not None]
    assert sum(value < 0.05 for value in p_values) >= 3
    assert sum(beyond_noise(p_values)) <= 1
    slower = compare([100.0, 101.0, 99.0, 100.5], [150.0, 151.0, 149.0, 150.5]).p_value
    assert slower is not None and beyond_noise([*p_values, slower])[-1]
    assert beyond_noise([]) == []


@given(st.lists(POSITIVE, min_size=1, max_size=30), st.floats(0.01, 100))
@settings(max_examples=60, deadline=None)
def test_a_typical_value_lies_within_and_scales(samples: list[float], factor: float) -> None:
    middle = typical(samples)
    assert min(samples) * (1 - 1e-9) <= middle <= max(samples) * (1 + 1e-9)
    assert typical([factor * value for value in samples]) == pytest.approx(factor * middle)
