"""One-axis plans against brute force, and the input that the planner refuses."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphs.buckets import BucketPlan
from graphs.errors import PlanInputError
from graphs.planning import StepCost, plan_buckets, plan_cost

costs = st.builds(
    StepCost,
    fixed=st.sampled_from([0, 3, 0.1]),
    per_row=st.sampled_from([1, 0.3, 7]),
    free_rows=st.integers(0, 6),
)
histograms = st.dictionaries(st.integers(1, 9), st.integers(0, 50))


def every_plan(sizes: range, top: int, max_graphs: int) -> list[BucketPlan]:
    """All plans of at most `max_graphs` sizes that hold `top`."""
    return [
        BucketPlan.of([*chosen, top])
        for k in range(max_graphs)
        for chosen in itertools.combinations(sizes, k)
    ]


@settings(max_examples=150, deadline=None)
@given(st.integers(9, 11), histograms, st.integers(1, 6), costs)
def test_no_plan_is_cheaper(
    max_batch: int, steps: dict[int, int], max_graphs: int, cost: StepCost
) -> None:
    planned = plan_buckets(max_batch, steps, max_graphs=max_graphs, cost=cost)
    plans = every_plan(range(1, max_batch), max_batch, max_graphs)
    best = min(plan_cost(plan, steps, cost) for plan in plans)
    assert planned.total_cost == best == plan_cost(planned.plan, steps, cost)
    fewest = min(len(plan.sizes) for plan in plans if plan_cost(plan, steps, cost) == best)
    assert len(planned.plan.sizes) == fewest
    assert planned.plan.largest == planned.plan.max_batch == max_batch


@settings(deadline=None)
@given(histograms, st.integers(1, 6), costs, st.integers(2, 4))
def test_no_plan_of_the_candidates_is_cheaper(
    steps: dict[int, int], max_graphs: int, cost: StepCost, multiple: int
) -> None:
    candidates = range(multiple, 30, multiple)
    planned = plan_buckets(9, steps, max_graphs=max_graphs, cost=cost, candidates=candidates)
    top = -(-9 // multiple) * multiple
    plans = every_plan(range(multiple, top, multiple), top, max_graphs)
    assert planned.total_cost == min(plan_cost(plan, steps, cost) for plan in plans)
    assert planned.plan.largest == top
    assert all(size % multiple == 0 for size in planned.plan.sizes)


@given(histograms, st.integers(1, 9))
def test_the_frontier_falls_and_each_point_is_the_best_for_its_number(
    steps: dict[int, int], max_graphs: int
) -> None:
    frontier = plan_buckets(9, steps, max_graphs=max_graphs).frontier
    values = [cover.cost for cover in frontier]
    assert values == sorted(set(values), reverse=True)
    for number, cover in enumerate(frontier, start=1):
        assert len(cover.sizes) == number
        assert cover.cost == plan_buckets(9, steps, max_graphs=number).total_cost


def test_default_cost_counts_rows_and_default_traffic_is_uniform() -> None:
    planned = plan_buckets(24, max_graphs=3)
    report = planned.plan.padding(planned.steps)
    assert planned.plan.sizes == (8, 16, 24)
    assert planned.total_cost == report.rows + report.padded_rows


def test_free_rows_save_graphs() -> None:
    steps = dict.fromkeys(range(1, 65), 3)
    free = plan_buckets(64, steps, max_graphs=16, cost=StepCost(fixed=100, free_rows=64))
    assert free.plan.sizes == (64,)
    some = plan_buckets(64, steps, max_graphs=4, cost=StepCost(fixed=100, free_rows=48))
    assert some.plan.sizes[0] == 48 and len(some.plan.sizes) == 4


def test_a_fixed_cost_does_not_change_the_choice() -> None:
    steps = {1: 9, 5: 4, 6: 4, 30: 1}
    plain, fixed = (
        plan_buckets(32, steps, max_graphs=3, cost=StepCost(fixed=f)) for f in (0, 1000)
    )
    assert plain.plan == fixed.plan
    assert fixed.total_cost - plain.total_cost == 1000 * sum(steps.values())


def test_costs_are_exact() -> None:
    assert StepCost(per_row=0.1).of(3) == 3 * Fraction(0.1)


def test_large_plans_are_quick_and_exact_counts_do_not_overflow() -> None:
    steps = {size: 10**15 + size for size in range(1, 2049)}
    planned = plan_buckets(2048, steps, max_graphs=40)
    assert planned.total_cost == plan_cost(planned.plan, steps, StepCost())
    assert len(planned.plan.sizes) == 40


@pytest.mark.parametrize(
    "arguments, text",
    [
        ({"max_batch": 8, "max_graphs": 0}, "at most 0 graphs"),
        ({"max_batch": 8, "max_graphs": 2, "candidates": [2, 4]}, "largest candidate 4"),
        ({"max_batch": 8, "max_graphs": 2, "steps": {9: 1}}, "batches of 9"),
    ],
)
def test_limits_that_leave_no_plan(arguments: dict[str, object], text: str) -> None:
    with pytest.raises(PlanInputError, match=f"(?s)AI-GRAPH-041.*{text}"):
        plan_buckets(**arguments)  # type: ignore[arg-type]


def test_sizes_that_are_none() -> None:
    with pytest.raises(PlanInputError, match="AI-GRAPH-001"):
        plan_buckets(0, max_graphs=1)
    with pytest.raises(PlanInputError, match="AI-GRAPH-001"):
        plan_buckets(4, max_graphs=1, candidates=[0, 4])


@pytest.mark.parametrize("terms", [{"fixed": -1}, {"per_row": float("nan")}, {"free_rows": -2}])
def test_costs_that_cannot_be_meant(terms: dict[str, float]) -> None:
    with pytest.raises(PlanInputError, match="AI-GRAPH-042"):
        StepCost(**terms)  # type: ignore[arg-type]


@settings(max_examples=25, deadline=None)
@given(
    st.dictionaries(st.integers(1, 90), st.integers(1, 10**6), min_size=20),
    st.integers(1, 25),
    costs,
)
def test_the_recurrence_without_the_envelope(
    steps: dict[int, int], max_graphs: int, cost: StepCost
) -> None:
    sizes = sorted({*steps, 90})
    prices = [cost.of(size) for size in sizes]
    totals = [sum(steps.get(size, 0) for size in sizes[:j]) for j in range(len(sizes) + 1)]
    best = [p * n for p, n in zip(prices, totals[1:], strict=True)]
    for _ in range(min(max_graphs, len(sizes)) - 1):
        best = [
            min(
                [best[j]]
                + [best[i] + prices[j] * (totals[j + 1] - totals[i + 1]) for i in range(j)]
            )
            for j in range(len(sizes))
        ]
    assert plan_buckets(90, steps, max_graphs=max_graphs, cost=cost).total_cost == best[-1]
