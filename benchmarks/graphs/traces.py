"""Batch sizes of decode steps under three kinds of load, generated from documented processes.

All three are one queue: requests arrive at random, wait while `MAX_BATCH` others run, and leave
after as many decode steps as they generate tokens. The batch size of a step is the number of
requests that run. What differs is how requests arrive and how long they stay.

  steady     Poisson arrivals at a constant rate; lengths geometric, mean 250. By Little's law the
             mean batch is rate * length = 100; as an M/M/c queue its spread is about a root of it.
  bursty     Poisson arrivals whose rate a two-state Markov chain switches: 20 requests on average
             for 2000 steps at a time, then 180 for 600; lengths geometric, mean 200.
  long tail  Requests come in groups, by Poisson arrivals, one group in 20 steps; the size of a
             group is Pareto with shape 1.2, at most MAX_BATCH; lengths Pareto with shape 1.5, from
             60 to 20000. Most batches are small, and some fill the scheduler.

The steps of one seed are one realisation; another seed is other traffic of the same kind.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterator

MAX_BATCH = 256
STEPS = 20_000
#: Steps before recording starts, so that the empty queue of the start is not part of a trace.
_WARM_UP = 4_000

Rate = Iterator[float]
Draw = Callable[[random.Random], int]


def steady(seed: int) -> list[int]:
    """Constant rate, mean batch 100."""
    rng = random.Random(seed)
    return _queue(rng, _constant(100 / 250), _geometric(250))


def bursty(seed: int) -> list[int]:
    """Long quiet times at a mean batch of 20, bursts towards 180."""
    rng = random.Random(seed)
    return _queue(rng, _switched(rng, (20 / 200, 2000), (180 / 200, 600)), _geometric(200))


def long_tail(seed: int) -> list[int]:
    """Heavy-tailed groups of requests with heavy-tailed lengths."""
    rng = random.Random(seed)
    groups = _pareto(shape=1.2, shortest=1, longest=MAX_BATCH)
    lengths = _pareto(shape=1.5, shortest=60, longest=20_000)
    return _queue(rng, _constant(1 / 20), lengths, groups)


TRACES: dict[str, Callable[[int], list[int]]] = {
    "steady": steady,
    "bursty": bursty,
    "long tail": long_tail,
}


def _queue(rng: random.Random, rates: Rate, length: Draw, group: Draw = lambda rng: 1) -> list[int]:
    """The batch size of each step; steps without a request are left out."""
    running: list[int] = []  # heap of the steps at which requests leave
    waiting = 0
    sizes: list[int] = []
    for step in range(_WARM_UP + STEPS):
        waiting += sum(group(rng) for _ in range(_poisson(rng, next(rates))))
        while running and running[0] <= step:
            heapq.heappop(running)
        while waiting and len(running) < MAX_BATCH:
            heapq.heappush(running, step + length(rng))
            waiting -= 1
        if step >= _WARM_UP and running:
            sizes.append(len(running))
    return sizes


def _constant(rate: float) -> Rate:
    while True:
        yield rate


def _switched(rng: random.Random, *states: tuple[float, int]) -> Rate:
    """Rates in turn, each for a geometric number of steps with the given mean."""
    while True:
        for rate, mean_steps in states:
            for _ in range(_geometric(mean_steps)(rng)):
                yield rate


def _geometric(mean: float) -> Draw:
    def draw(rng: random.Random) -> int:
        return max(1, round(rng.expovariate(1 / mean)))

    return draw


def _pareto(*, shape: float, shortest: int, longest: int) -> Draw:
    def draw(rng: random.Random) -> int:
        return min(int(shortest * rng.paretovariate(shape)), longest)

    return draw


def _poisson(rng: random.Random, mean: float) -> int:
    """Knuth's method: arrivals in one unit of time, for small means."""
    count, time = 0, rng.expovariate(mean)
    while time <= 1:
        count += 1
        time += rng.expovariate(mean)
    return count
