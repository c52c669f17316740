"""Two-axis plans against all shelves, all product grids and the one-axis plan."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphs.errors import PlanInputError
from graphs.planning import CellCost, plan_buckets, plan_grid
from graphs.planning.grid import MAX_CANDIDATES, Shape, joint_of

Joint = Mapping[tuple[int, int], int]

joint = st.dictionaries(
    st.tuples(st.integers(1, 4), st.integers(1, 3)), st.integers(1, 9), min_size=1
)
costs = st.builds(CellCost, per_row=st.integers(0, 3), per_cell=st.integers(1, 2))


def subsets(top: int) -> list[tuple[int, ...]]:
    """All ascending sets of sizes up to `top`, empty ones left out."""
    sizes = range(1, top + 1)
    return [c for n in sizes for c in itertools.combinations(sizes, n)]


def cost_of(shapes: Iterable[Shape], steps: Joint, cost: CellCost) -> int | None:
    """Each step in its cheapest shape; None when one has none."""
    total = 0
    for (batch, blocks), count in steps.items():
        fits = [cost.of(*s) for s in shapes if s[0] >= batch and s[1] >= blocks]
        if not fits:
            return None
        total += int(min(fits)) * count
    return total


@settings(max_examples=80, deadline=None)
@given(joint, st.integers(1, 4), costs)
def test_no_shelves_are_cheaper(steps: Joint, max_graphs: int, cost: CellCost) -> None:
    planned = plan_grid(4, 3, steps, max_graphs=max_graphs, cost=cost)
    assert len(planned.shapes) <= max_graphs and planned.shapes[-1] == (4, 3)
    assert planned.total_cost == cost_of(planned.shapes, steps, cost)
    best = None
    for rows in (chosen for chosen in subsets(4) if chosen[-1] == 4):
        for widths in itertools.product(subsets(3), repeat=len(rows)):
            shapes = [(r, w) for r, shelf in zip(rows, widths, strict=True) for w in shelf]
            if len(shapes) > max_graphs or widths[-1][-1] != 3:
                continue
            # A step uses a shelf of its own range only: the dispatcher can do no worse.
            ranges = [
                cost_of(
                    [(r, w) for w in shelf],
                    {k: n for k, n in steps.items() if low < k[0] <= r},
                    cost,
                )
                for low, r, shelf in zip((0, *rows), rows, widths, strict=False)
            ]
            if None not in ranges:
                total = sum(value or 0 for value in ranges)
                best = total if best is None else min(best, total)
    assert best is not None and planned.total_cost <= best


@settings(max_examples=60, deadline=None)
@given(joint, st.integers(1, 6), costs)
def test_a_product_of_axes_is_never_better(steps: Joint, max_graphs: int, cost: CellCost) -> None:
    planned = plan_grid(4, 3, steps, max_graphs=max_graphs, cost=cost)
    for rows, widths in itertools.product(subsets(4), subsets(3)):
        if rows[-1] == 4 and widths[-1] == 3 and len(rows) * len(widths) <= max_graphs:
            other = cost_of([*itertools.product(rows, widths)], steps, cost)
            assert other is not None and planned.total_cost <= other


@given(joint, st.integers(1, 4))
def test_one_width_is_the_plan_over_one_axis(steps: Joint, max_graphs: int) -> None:
    flat: dict[tuple[int, int], int] = {}
    for (batch, _), count in steps.items():
        flat[batch, 1] = flat.get((batch, 1), 0) + count
    planned = plan_grid(4, 1, flat, max_graphs=max_graphs)
    line = plan_buckets(4, {b: n for (b, _), n in flat.items()}, max_graphs=max_graphs)
    assert planned.total_cost == line.total_cost
    assert tuple(rows for rows, _ in planned.shapes) == line.plan.sizes


def test_dispatch_takes_the_cheapest_shape() -> None:
    planned = plan_grid(8, 10, {(2, 10): 5, (8, 2): 5, (8, 10): 1}, max_graphs=3)
    assert planned.shapes == ((2, 10), (8, 2), (8, 10))
    assert planned.bucket_for(2, 2) == (8, 2)  # 16 cells rather than 20
    assert planned.bucket_for(3, 3) == (8, 10)
    assert planned.bucket_for(9, 1) is None


def test_many_sizes_are_thinned_out_and_still_covered() -> None:
    steps = {(n, 1 + n % 70): n for n in range(1, 200)}
    planned = plan_grid(300, 80, steps, max_graphs=10)
    assert MAX_CANDIDATES < 70 and len(planned.shapes) <= 10
    assert planned.shapes[-1] == (300, 80)
    one_axis = plan_grid(300, 80, {(n, 80): c for (n, _), c in steps.items()}, max_graphs=10)
    assert planned.total_cost < one_axis.total_cost


def test_joint_of_spreads_evenly() -> None:
    assert joint_of({3: 2}, 2) == {(3, 1): 2, (3, 2): 2}


@pytest.mark.parametrize(
    "limits, max_graphs, code",
    [((4, 3), 0, "041"), ((3, 3), 2, "041"), ((4, 2), 2, "041"), ((0, 3), 2, "001")],
)
def test_limits_that_leave_no_plan(limits: tuple[int, int], max_graphs: int, code: str) -> None:
    with pytest.raises(PlanInputError, match=f"AI-GRAPH-{code}"):
        plan_grid(*limits, {(4, 3): 1}, max_graphs=max_graphs)
