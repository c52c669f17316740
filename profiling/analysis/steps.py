"""How busy the device was in each step, from the tasks' start times and durations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    timed = (tasks.start_ns != NO_TIME) & (tasks.duration_us >= 0)
    timed &= tasks.duration_us < _LONGEST_US
    known = tasks.select(timed)
    group = known.device.codes.astype(np.int64) * len(known.step.names) + known.step.codes
    order = np.lexsort((known.start_ns, group))
    bounds = np.flatnonzero(np.diff(group[order], prepend=-1, append=-1))
    uses = [_use(known.select(order[a:b])) for a, b in pairwise(bounds)]
    return [use for _, use in sorted(uses, key=lambda pair: pair[0])]


def busy_ns(start: NDArray[np.int64], end: NDArray[np.int64]) -> int:
    """The length of the union of intervals, which are ordered by their starts."""
    if not len(start):
        return 0
    covered = np.concatenate([start[:1], np.maximum.accumulate(end)[:-1]])
    return int(np.maximum(end - np.maximum(covered, start), 0).sum())


def is_communication(tasks: Tasks) -> NDArray[np.bool_]:
    """Which tasks send or receive, by their core or, where the file has none, their operator."""
    by_core = _any(tasks.core, lambda name: name.upper() in COMMUNICATION)
    return by_core | _any(
        tasks.operator, lambda name: name.lower().startswith(_COMMUNICATION_OPERATORS)
    )


def _any(labels: Labels, test: Callable[[str], bool]) -> NDArray[np.bool_]:
    return np.array([test(name) for name in labels.names], dtype=bool)[labels.codes]


def _use(tasks: Tasks) -> tuple[int, StepUse]:
    """Of tasks of one step, ordered by their starts; with the start of the first."""
    start = tasks.start_ns
    end = start + np.rint(tasks.duration_us * 1000).astype(np.int64)
    communicates = is_communication(tasks)
    last = int(end.argmax())
    use = StepUse(
        step=tasks.step.names[tasks.step.codes[0]],
        device=tasks.device.names[tasks.device.codes[0]],
        tasks=len(tasks),
        span_us=int(end[last] - start[0]) / 1000,
        busy_us=busy_ns(start, end) / 1000,
        computing_us=busy_ns(start[~communicates], end[~communicates]) / 1000,
        communication_us=busy_ns(start[communicates], end[communicates]) / 1000,
        first=tasks.duration_of(0),
        last=tasks.duration_of(last),
        gap=next(_longest_gap(tasks, start, end), None),
    )
    return int(start[0]), use


def _longest_gap(tasks: Tasks, start: NDArray[np.int64], end: NDArray[np.int64]) -> Iterator[Gap]:
    if len(start) < 2:
        return
    covered = np.maximum.accumulate(end)[:-1]
    gaps = start[1:] - covered
    place = int(gaps.argmax())
    if gaps[place] > 0:
        before = int(np.flatnonzero(end[: place + 1] == covered[place])[0])
        yield Gap(
            us=int(gaps[place]) / 1000,
            before=SourceLocation(tasks.file, int(tasks.lines[before])),
            after=SourceLocation(tasks.file, int(tasks.lines[place + 1])),
        )
