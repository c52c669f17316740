"""The benchmark of the serving simulation, with fewer requests."""

from __future__ import annotations

import dataclasses

import pytest

from benchmarks.serving import CASES, Case, measure


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_case_runs(case: Case) -> None:
    speed = measure(dataclasses.replace(case, requests=2 * case.slots), rounds=1)
    assert speed.steps > 0 and speed.tokens > speed.steps and speed.prefix_hits > 0
    assert 0 < speed.mean_batch <= case.slots
    assert speed.steps_per_second > 0 and speed.steps_per_second_with_figures > 0
