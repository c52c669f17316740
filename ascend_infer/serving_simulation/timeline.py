"""What happened when: stretches of equal decode steps, prefill steps, and use of the cache.

A stretch is a number of decode steps with the same sequences. Its steps are not stored; their ends
are a formula. Everything per step or token is computed from stretches after the simulation.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ascend_infer.serving_simulation.workload import Floats, Ints


class Stretch(NamedTuple):
    """`steps` decode steps. start: seconds. first: of its first step; each further one takes
    `longer` more, since contexts grow. live: sequences that get a token from every step. rows:
    of the batch, those included that static batching keeps. mixed: whether prompts were computed in
    it, too. used: KV blocks before and after."""

    start: float
    first: float
    longer: float
    steps: int
    live: int
    rows: int
    mixed: bool
    used_before: int
    used_after: int


class PrefillStep(NamedTuple):
    """A step that computes prompts and nothing else."""

    start: float
    end: float
    used: int


class Stint(NamedTuple):
    """A sequence's tokens between admission and its end or preemption: one at `first_token`, then
    one per decode step from number `begin` to before `end`."""

    first_token: float
    begin: int
    end: int


def end_of(start: float, first: float, longer: float, steps: int) -> float:
    """When the `steps`-th step of a stretch is over."""
    return (start + steps * first) + longer * (steps * (steps - 1) // 2)


def steps_until(time: float, start: float, first: float, longer: float, most: int) -> int:
    """The fewest steps, 1 to `most`, after which it is `time` or later; `most` if none are."""
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        if end_of(start, first, longer, middle) >= time:
            high = middle
        else:
            low = middle + 1
    return low


@dataclass(kw_only=True)
class Timeline:
    """The record of a simulation, as the engine writes it."""

    stretches: list[Stretch] = field(default_factory=list)
    prefills: list[PrefillStep] = field(default_factory=list)
    stints: dict[int, list[Stint]] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)

    @cached_property
    def _columns(self) -> dict[str, Floats]:
        width = len(Stretch._fields)
        flat = itertools.chain.from_iterable(self.stretches)
        rows = np.fromiter(flat, np.float64, width * len(self.stretches)).reshape(-1, width)
        return {name: rows[:, i] for i, name in enumerate(Stretch._fields)}

    def column(self, name: str) -> Floats:
        """One field of all stretches."""
        return self._columns[name]

    @cached_property
    def step_ends(self) -> Floats:
        """When each decode step was over."""
        counts = self.column("steps").astype(np.int64)
        before = np.cumsum(counts) - counts
        number = np.arange(counts.sum()) - np.repeat(before, counts) + 1
        start, first, longer = (
            np.repeat(self.column(name), counts) for name in ("start", "first", "longer")
        )
        # The same operations in the same order as `end_of`: equal to the last bit.
        return np.asarray((start + number * first) + longer * (number * (number - 1) // 2))

    @cached_property
    def stretch_ends(self) -> Floats:
        """When each stretch was over."""
        steps = self.column("steps")
        first, longer = self.column("first"), self.column("longer")
        ends = (self.column("start") + steps * first) + longer * (steps * (steps - 1) // 2)
        return np.asarray(ends)

    def token_times(self, request: int) -> Floats:
        """When a request's tokens were there; empty if it was refused."""
        stints = self.stints.get(request, ())
        times = np.empty(sum(1 + stint.end - stint.begin for stint in stints))
        at = 0
        for first_token, begin, end in stints:
            times[at] = first_token
            times[at + 1 : at + 1 + end - begin] = self.step_ends[begin:end]
            at += 1 + end - begin
        return times

    def batch_sizes(self) -> dict[int, int]:
        """Rows of a batch -> decode steps that had them and no prompts, for a bucket plan."""
        decoding = self.column("mixed") == 0
        rows, steps = (self.column(n)[decoding].astype(np.int64) for n in ("rows", "steps"))
        sizes, where = np.unique(rows, return_inverse=True)
        counts = np.zeros(len(sizes), dtype=np.int64)
        np.add.at(counts, where, steps)
        return dict(zip(sizes.tolist(), counts.tolist(), strict=True))

    def cache_use(self) -> tuple[Floats, Ints]:
        """Times, ascending, and KV blocks in use: before and after every stretch and prefill."""
        prefills = np.array(self.prefills, dtype=np.float64).reshape(-1, 3)
        starts = np.concatenate([self.column("start"), prefills[:, 0]])
        ends = np.concatenate([self.stretch_ends, prefills[:, 1]])
        before = np.concatenate([self.column("used_before"), prefills[:, 2]])
        after = np.concatenate([self.column("used_after"), prefills[:, 2]])
        order = np.lexsort((ends, starts))  # a step without duration is before what follows it
        times = np.stack([starts[order], ends[order]], axis=1).reshape(-1)
        blocks = np.stack([before[order], after[order]], axis=1).reshape(-1)
        return times, blocks.astype(np.int64)
