"""Planning over two axes: rows, and cache blocks of the longest sequence.

What the second axis saves depends on what the step does with a column of the block table. A kernel
that reads `seq_lens` on the device stops at the end of each sequence; for it a narrower graph
saves the copy of the table and whatever grid or workspace is sized by `max_blocks`. A step that
gathers the table's blocks reads every column of every row, padding included; for it the cells
`rows * blocks` are the work, and the second axis divides it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from graphs.buckets import BucketPlan
from graphs.errors import PlanInputError
from graphs.planning.histogram import JointSteps, Steps
from graphs.planning.search import Cover, best_covers

#: An axis with more candidates than this is thinned out: the search takes their square.
MAX_CANDIDATES = 48

Shape = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class CellCost:
    """`rows * (per_row + per_cell * blocks)`; the default counts cells of the block table."""

    per_row: int = 0
    per_cell: int = 1

    def of(self, rows: int, blocks: int) -> Fraction:
        """The cost of one step in a graph of this shape."""
        return Fraction(rows * (self.per_row + self.per_cell * blocks))


@dataclass(frozen=True, kw_only=True)
class GridPlan:
    """Capture shapes (rows, blocks).

    shapes: ascending; the last one is the largest batch with the longest sequence.
    cost: of a step in a graph of a shape.
    total_cost: of all steps of the histogram that was planned for, each in its cheapest shape.
    full_width_cost: the same with the best one-axis plan of as many graphs, all of full width.
    """

    shapes: tuple[Shape, ...]
    cost: CellCost
    total_cost: Fraction
    full_width_cost: Fraction

    def bucket_for(self, batch: int, blocks: int) -> Shape | None:
        """The cheapest shape that holds the step; None when none does."""
        holding = [shape for shape in self.shapes if shape[0] >= batch and shape[1] >= blocks]
        return min(holding, key=lambda shape: (self.cost.of(*shape), shape), default=None)


def plan_grid(
    max_batch: int,
    max_blocks: int,
    steps: JointSteps,
    *,
    max_graphs: int,
    cost: CellCost | None = None,
) -> GridPlan:
    """At most `max_graphs` shapes for the least total cost over `steps`.

    The plan is made of shelves: the batch sizes are divided into ranges, and each range has widths
    of its own. Among such plans over the candidate sizes the optimum is exact, found by the
    one-axis programme for the widths of every range and by a second one over the ranges. So it is
    never worse than a grid of rows times widths, nor than a one-axis plan, with as many graphs. A
    set of shapes that are no shelves can be better still; that problem is not solved here.

    Candidates are the sizes that occur. Of an axis with more than `MAX_CANDIDATES` of them the
    best that many for that axis alone are taken.

    Args:
        max_batch, max_blocks: the corner that is always covered.
        steps: (batch, blocks of its longest sequence) -> decode steps.
        cost: what a step of a shape costs; None counts cells of the block table.

    Raises:
        PlanInputError: AI-GRAPH-001 for a limit that is no positive integer; AI-GRAPH-041 when no
            graph is allowed or a step does not fit into (`max_batch`, `max_blocks`).
    """
    for limit in (max_batch, max_blocks):
        BucketPlan.of((), max_batch=limit)  # refuses what is no size
    outside = [key for key in steps if key[0] > max_batch or key[1] > max_blocks]
    if outside or max_graphs < 1:
        raise PlanInputError(
            "AI-GRAPH-041",
            f"at most {max_graphs} graphs up to {max_batch} rows and {max_blocks} blocks; "
            f"steps beyond that: {outside[:3]}",
            rule="a plan covers every step of its histogram",
            fix="raise the limits to what the histogram holds, and allow at least one graph",
        )
    cost = cost or CellCost()
    rows = _candidates(steps, 0, max_batch)
    widths = _candidates(steps, 1, max_blocks)
    by_row = _blocks_by_row(steps, rows)
    shapes = _stack(rows, widths, by_row, max_graphs, cost)
    return GridPlan(
        shapes=tuple(sorted(shapes)),
        cost=cost,
        total_cost=sum(
            (_cheapest(shapes, key, cost) * count for key, count in steps.items()), Fraction(0)
        ),
        full_width_cost=best_covers(
            _marginal(steps, 0), rows, lambda r: cost.of(r, max_blocks), max_graphs=max_graphs
        )[-1].cost,
    )


def _cheapest(shapes: Sequence[Shape], step: Shape, cost: CellCost) -> Fraction:
    return min(cost.of(*s) for s in shapes if s[0] >= step[0] and s[1] >= step[1])


def _marginal(steps: JointSteps, axis: int) -> Counter[int]:
    marginal: Counter[int] = Counter()
    for key, count in steps.items():
        marginal[key[axis]] += count
    return marginal


def _candidates(steps: JointSteps, axis: int, top: int) -> list[int]:
    marginal = _marginal(steps, axis)
    observed = sorted({*marginal, top})
    if len(observed) <= MAX_CANDIDATES:
        return observed
    return list(best_covers(marginal, observed, Fraction, max_graphs=MAX_CANDIDATES)[-1].sizes)


def _blocks_by_row(steps: JointSteps, rows: Sequence[int]) -> list[Counter[int]]:
    """For each candidate number of rows, the blocks of the steps that it is the smallest for."""
    plan = BucketPlan.of(rows)
    found: dict[int, Counter[int]] = {size: Counter() for size in rows}
    for (batch, blocks), count in steps.items():
        bucket = plan.bucket_for(batch)
        assert bucket is not None  # the last candidate is the largest batch
        found[bucket][blocks] += count
    return [found[size] for size in rows]


def _stack(
    rows: Sequence[int],
    widths: Sequence[int],
    by_row: Sequence[Counter[int]],
    max_graphs: int,
    cost: CellCost,
) -> list[Shape]:
    """The cheapest shelves: best[j] holds, per number of graphs, shelves for rows[:j]."""
    best: list[dict[int, tuple[Fraction, list[Shape]]]] = [{0: (Fraction(0), [])}]
    for j, height in enumerate(rows, start=1):
        reached: dict[int, tuple[Fraction, list[Shape]]] = {}
        blocks: Counter[int] = Counter()
        for i in reversed(range(j)):
            blocks.update(by_row[i])
            for cover in _shelf(blocks, widths, height, max_graphs, cost, last=j == len(rows)):
                shelf = [(height, width) for width in cover.sizes]
                for graphs, (before, shapes) in best[i].items():
                    number, total = graphs + len(shelf), before + cover.cost
                    if number <= max_graphs and (
                        number not in reached or total < reached[number][0]
                    ):
                        reached[number] = total, shapes + shelf
        best.append(reached)
    return min(best[-1].values(), key=lambda entry: (entry[0], len(entry[1])))[1]


def _shelf(
    blocks: Steps,
    widths: Sequence[int],
    height: int,
    max_graphs: int,
    cost: CellCost,
    *,
    last: bool,
) -> tuple[Cover, ...]:
    """The best widths for steps of up to `height` rows; the last shelf holds the longest, too."""
    longest = max(blocks, default=1)
    allowed = (
        widths if last else widths[: 1 + next(i for i, w in enumerate(widths) if w >= longest)]
    )
    return best_covers(blocks, allowed, lambda width: cost.of(height, width), max_graphs=max_graphs)


def joint_of(steps: Mapping[int, int], max_blocks: int) -> dict[tuple[int, int], int]:
    """Steps of every batch size spread evenly over up to `MAX_CANDIDATES` lengths.

    What to assume when only batch sizes are known: lengths do not depend on the batch.
    """
    parts = min(max_blocks, MAX_CANDIDATES)
    lengths = [-(-max_blocks * part // parts) for part in range(1, parts + 1)]
    return {(batch, blocks): count for batch, count in steps.items() for blocks in lengths}
