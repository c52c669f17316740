"""The exact choice of capture sizes: a dynamic programme over candidate sizes.

Sizes c_1 < ... < c_m are candidates, S_j counts the steps with a batch of at most c_j, and p_j is
the price of a step in a graph of c_j. Steps between two chosen neighbours c_i and c_j cost
p_j * (S_j - S_i), so with F_k(j) the least cost of the steps up to c_j with k graphs, the largest
of them c_j,

    F_k(j) = min over i < j of F_{k-1}(i) - S_i * p_j, plus p_j * S_j.

For a fixed k the minimum is over straight lines in p_j. Slopes -S_i fall with i and prices rise
with j, so the lower envelope is kept in a queue and a layer takes O(m) steps. Prices are integers:
nothing is rounded.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate


@dataclass(frozen=True, kw_only=True)
class Cover:
    """Capture sizes, ascending, and what all steps of a histogram cost with them."""

    sizes: tuple[int, ...]
    cost: Fraction


def best_covers(
    steps: Mapping[int, int],
    candidates: Sequence[int],
    price: Callable[[int], Fraction],
    *,
    max_graphs: int,
) -> tuple[Cover, ...]:
    """The cheapest covers with 1, 2, ... graphs, up to the last graph that saves anything.

    Args:
        steps: batch size -> decode steps; no size above the last candidate.
        candidates: sizes that may be captured, ascending. The last one is always chosen.
        price: cost of one step in a graph of a size; does not fall with the size.
        max_graphs: at least 1.

    Returns:
        Covers with strictly falling cost; the last one is the optimum for at most `max_graphs`
        graphs, with as few graphs as that cost allows.
    """
    sizes, served = _useful(steps, candidates)
    exact = [price(size) for size in sizes]
    scale = math.lcm(*(value.denominator for value in exact))
    prices = [int(value * scale) for value in exact]
    totals = list(accumulate(served, initial=0))

    last = len(sizes)
    # Index 0 stands for "no graph yet", index j for the j-th size.
    layer: list[int] = [0, *(prices[j - 1] * totals[j] for j in range(1, last + 1))]
    parents: list[list[int]] = [[0] * (last + 1)]
    covers = [_cover(sizes, parents, layer[last], scale)]
    while len(parents) < min(max_graphs, last):
        layer, parent = _with_one_more(layer, totals, prices, graphs=len(parents) + 1)
        if Fraction(layer[last], scale) >= covers[-1].cost:
            break
        parents.append(parent)
        covers.append(_cover(sizes, parents, layer[last], scale))
    return tuple(covers)


def _useful(steps: Mapping[int, int], candidates: Sequence[int]) -> tuple[list[int], list[int]]:
    """Candidates that a step needs, with the steps that each would serve if all were chosen.

    A size that no step between it and the next smaller candidate needs can give way to that
    smaller one. The last candidate stays: it is what covers the largest batch.
    """
    ordered = sorted((size, count) for size, count in steps.items() if size > 0 and count > 0)
    sizes: list[int] = []
    served: list[int] = []
    position = 0
    for candidate in candidates:
        count = 0
        while position < len(ordered) and ordered[position][0] <= candidate:
            count += ordered[position][1]
            position += 1
        if count or candidate == candidates[-1]:
            sizes.append(candidate)
            served.append(count)
    return sizes, served


def _with_one_more(
    before: list[int], totals: list[int], prices: list[int], *, graphs: int
) -> tuple[list[int], list[int]]:
    """F_k and its minimising i from F_{k-1}; entries below k stay unreachable and are not read."""
    layer, parent = [0] * len(before), [0] * len(before)
    lines: deque[int] = deque()

    def at(i: int, price: int) -> int:
        return before[i] - totals[i] * price

    def hidden(a: int, b: int, c: int) -> bool:
        """Whether line b is nowhere below both of its neighbours a and c."""
        return (before[c] - before[a]) * (totals[b] - totals[a]) <= (before[b] - before[a]) * (
            totals[c] - totals[a]
        )

    for j in range(graphs, len(before)):
        while len(lines) >= 2 and hidden(lines[-2], lines[-1], j - 1):
            lines.pop()
        lines.append(j - 1)
        price = prices[j - 1]
        while len(lines) >= 2 and at(lines[1], price) <= at(lines[0], price):
            lines.popleft()
        layer[j] = at(lines[0], price) + price * totals[j]
        parent[j] = lines[0]
    return layer, parent


def _cover(sizes: list[int], parents: list[list[int]], cost: int, scale: int) -> Cover:
    chosen: list[int] = []
    j = len(sizes)
    for parent in reversed(parents):
        chosen.append(sizes[j - 1])
        j = parent[j]
    return Cover(sizes=tuple(reversed(chosen)), cost=Fraction(cost, scale))
