"""How busy the device was in each step, from the tasks' start times and durations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kernels_npu.errors import SourceLocation
from profiling.records.table import Figure
from profiling.records.tasks import NO_TIME, Labels, Tasks

#: Cores of tasks that send or receive; they may run beside computation.
COMMUNICATION = frozenset({"HCCL", "COMMUNICATION", "HCCS", "SDMA"})
_COMMUNICATION_OPERATORS = ("hcom_", "hccl")
#: A task that takes eleven days is a damaged cell.
_LONGEST_US = 1e12


@dataclass(frozen=True, kw_only=True)
class Gap:
    """Time in which no task ran."""

    us: float
    before: SourceLocation
    after: SourceLocation


@dataclass(frozen=True, kw_only=True)
class StepUse:
    """One step on one device.

    Args:
        step, device: empty in files that do not tell.
        tasks: with a start and a duration.
        span_us: from the first start to the last end.
        busy_us: in which at least one task ran.
        computing_us: in which at least one task that is no communication ran.
        communication_us: in which at least one communication ran.
        first, last: the tasks that begin and end the step.
        gap: the longest one; None when there is none.
    """

    step: str
    device: str
    tasks: int
    span_us: float
    busy_us: float
    computing_us: float
    communication_us: float
    first: Figure
    last: Figure
    gap: Gap | None

    @property
    def idle_us(self) -> float:
        """In which no task ran."""
        return self.span_us - self.busy_us

    @property
    def busy_share(self) -> float:
        """The busy part of the span."""
        return self.busy_us / self.span_us if self.span_us else 0.0


def step_use(tasks: Tasks) -> list[StepUse]:
    """All steps of all devices, in the order of time."""
    known, group = _in_order(tasks)
    firsts = np.flatnonzero(np.diff(group, prepend=-1))
    bounds = np.append(firsts, len(group))
    start = known.start_ns
    end = start + np.rint(known.duration_us * 1000).astype(np.int64)
    communicates = is_communication(known)
    computing = _busy_us(start, end, bounds, ~communicates)
    communication = _busy_us(start, end, bounds, communicates)
    busy = _busy_us(start, end, bounds, np.ones_like(communicates))
    uses = []
    for place in np.argsort(start[firsts], kind="stable"):
        a, b = bounds[place], bounds[place + 1]
        last = a + int(end[a:b].argmax())
        use = StepUse(
            step=known.step.names[known.step.codes[a]],
            device=known.device.names[known.device.codes[a]],
            tasks=int(b - a),
            span_us=int(end[last] - start[a]) / 1000,
            busy_us=busy[place],
            computing_us=computing[place],
            communication_us=communication[place],
            first=known.duration_of(int(a)),
            last=known.duration_of(last),
            gap=_longest_gap(known, start, end, int(a), int(b)),
        )
        uses.append(use)
    return uses


def _in_order(tasks: Tasks) -> tuple[Tasks, NDArray[np.int64]]:
    """The tasks with a start and a duration, step by step in time; with the number of the step."""
    timed = (tasks.start_ns != NO_TIME) & (tasks.duration_us >= 0)
    timed &= tasks.duration_us < _LONGEST_US
    known = tasks if timed.all() else tasks.select(timed)
    group = known.device.codes.astype(np.int64) * len(known.step.names) + known.step.codes
    later = np.diff(group)
    # Profilers write tasks in this order, mostly; looking is much cheaper than sorting.
    if ((later > 0) | (later == 0) & (np.diff(known.start_ns) >= 0)).all():
        return known, group
    order = np.lexsort((known.start_ns, group))
    return known.select(order), group[order]


def _busy_us(
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    bounds: NDArray[np.int64],
    which: NDArray[np.bool_],
) -> list[float]:
    """For each step the length of the union of some of its tasks, ordered by their starts."""
    kept = np.concatenate([[0], np.cumsum(which)])[bounds]
    start, end = start[which], end[which]
    added = np.zeros(len(start), dtype=np.int64)
    for a, b in pairwise(kept):
        if b > a:
            covered = np.maximum.accumulate(end[a : b - 1])
            added[a] = end[a] - start[a]
            added[a + 1 : b] = end[a + 1 : b] - np.maximum(covered, start[a + 1 : b])
    so_far = np.concatenate([[0], np.cumsum(np.maximum(added, 0))])
    return [int(ns) / 1000 for ns in np.diff(so_far[kept])]


def is_communication(tasks: Tasks) -> NDArray[np.bool_]:
    """Which tasks send or receive, by their core or, where the file has none, their operator."""
    by_core = _any(tasks.core, lambda name: name.upper() in COMMUNICATION)
    return by_core | _any(
        tasks.operator, lambda name: name.lower().startswith(_COMMUNICATION_OPERATORS)
    )


def _any(labels: Labels, test: Callable[[str], bool]) -> NDArray[np.bool_]:
    return np.array([test(name) for name in labels.names], dtype=bool)[labels.codes]


def _longest_gap(
    tasks: Tasks, start: NDArray[np.int64], end: NDArray[np.int64], a: int, b: int
) -> Gap | None:
    """Of the tasks from `a` to before `b`, ordered by their starts."""
    if b - a < 2:
        return None
    covered = np.maximum.accumulate(end[a : b - 1])
    gaps = start[a + 1 : b] - covered
    place = int(gaps.argmax())
    if gaps[place] <= 0:
        return None
    # The task whose end is the latest so far; an earlier one may have ended at the same time.
    before = a + int(end[a : a + place + 1].argmax())
    return Gap(
        us=int(gaps[place]) / 1000,
        before=SourceLocation(tasks.file, int(tasks.lines[before])),
        after=SourceLocation(tasks.file, int(tasks.lines[a + place + 1])),
    )
