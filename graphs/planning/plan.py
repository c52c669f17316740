"""Planning over one axis: the capture sizes that cost a given traffic the least."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from graphs.buckets import BucketPlan
from graphs.errors import PlanInputError
from graphs.planning.cost import StepCost
from graphs.planning.histogram import Steps, uniform
from graphs.planning.search import Cover, best_covers


@dataclass(frozen=True, kw_only=True)
class PlannedBuckets:
    """The best plan, and what one graph less would have cost.

    plan: the capture sizes; the largest one holds `max_batch`.
    steps: the histogram that was planned for.
    cost: the model of a step that was minimised.
    frontier: the best cover for each number of graphs, from one graph to the plan's own.
    """

    plan: BucketPlan
    steps: Steps
    cost: StepCost
    frontier: tuple[Cover, ...]

    @property
    def total_cost(self) -> Fraction:
        """What all steps of the histogram cost with this plan, in units of `cost`."""
        return self.frontier[-1].cost


def plan_buckets(
    max_batch: int,
    steps: Steps | None = None,
    *,
    max_graphs: int,
    cost: StepCost | None = None,
    candidates: Iterable[int] | None = None,
) -> PlannedBuckets:
    """The capture sizes, at most `max_graphs` of them, with the least total cost over `steps`.

    The optimum is exact for the histogram and the cost given, and uses as few graphs as reach it.
    Batch sizes that the histogram lacks are served, too, by the next larger graph.

    Args:
        max_batch: largest batch that the scheduler forms (`max_num_seqs`); always covered.
        steps: batch size -> decode steps; None takes every size as equally frequent.
        cost: what a step of so many rows costs; None counts rows.
        candidates: sizes that may be captured, such as multiples of the tensor parallel size for
            sequence parallelism; None allows every size up to `max_batch`. Of those that hold
            `max_batch` the smallest is taken.

    Raises:
        PlanInputError: AI-GRAPH-001 for a size that is no positive integer; AI-GRAPH-041 when no
            candidate holds `max_batch`, no graph is allowed, or `steps` go beyond `max_batch`.
    """
    limit = BucketPlan.of((), max_batch=max_batch)  # refuses what is no batch size
    allowed = BucketPlan.of(range(1, max_batch + 1) if candidates is None else candidates)
    top = allowed.bucket_for(max_batch)
    if top is None or max_graphs < 1:
        raise _no_plan(
            f"at most {max_graphs} graphs, largest candidate {allowed.largest}, "
            f"largest batch {max_batch}",
            "allow at least one graph and a candidate that holds the largest batch",
        )
    histogram = uniform(max_batch) if steps is None else dict(steps)
    largest = max(histogram, default=0)
    if largest > max_batch:
        raise _no_plan(
            f"the histogram has batches of {largest}, the largest batch is {max_batch}",
            f"plan for a largest batch of {largest}, or correct the histogram",
        )
    cost = cost or StepCost()
    frontier = best_covers(
        histogram,
        [size for size in allowed.sizes if size <= top],
        cost.of,
        max_graphs=max_graphs,
    )
    plan = BucketPlan.of(frontier[-1].sizes, max_batch=limit.max_batch)
    return PlannedBuckets(plan=plan, steps=histogram, cost=cost, frontier=frontier)


def plan_cost(plan: BucketPlan, steps: Steps, cost: StepCost) -> Fraction:
    """What the steps that `plan` serves by graphs cost; eager steps are left out."""
    served = ((plan.bucket_for(size), count) for size, count in steps.items() if size)
    return sum(
        (cost.of(bucket) * count for bucket, count in served if bucket is not None), Fraction(0)
    )


def _no_plan(what: str, fix: str) -> PlanInputError:
    return PlanInputError(
        "AI-GRAPH-041",
        what,
        rule="a plan always covers the largest batch, and every step of its histogram",
        fix=fix,
    )
