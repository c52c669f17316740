"""Which operators the time goes to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from profiling.records.table import Figure
from profiling.records.tasks import Tasks


@dataclass(frozen=True, kw_only=True)
class OperatorTotal:
    """All tasks of one operator on one kind of core.

    Args:
        operator: its type, or its name in files without types.
        core: as the file spells it.
        count: tasks with a duration.
        total_us: of their durations.
        share: of the durations of all tasks of the file, which may overlap in time.
        mean_us: of one.
        min_us: the shortest.
        longest: the longest, with its place.
    """

    operator: str
    core: str
    count: int
    total_us: float
    share: float
    mean_us: float
    min_us: float
    longest: Figure


def operator_totals(tasks: Tasks) -> list[OperatorTotal]:
    """One total per operator and core, the largest first."""
    timed = tasks.select(~np.isnan(tasks.duration_us))
    if not len(timed):
        return []
    cores = len(timed.core.names)
    group = timed.operator.codes.astype(np.int64) * cores + timed.core.codes
    # Sorted by group and duration, a group's shortest and longest task are its ends.
    order = np.lexsort((timed.duration_us, group))
    firsts = np.flatnonzero(np.diff(group[order], prepend=-1))
    lasts = np.append(firsts[1:], len(order)) - 1
    sums = np.add.reduceat(timed.duration_us[order], firsts)
    everything = float(timed.duration_us.sum())
    totals = [
        OperatorTotal(
            operator=timed.operator.names[int(group[order[first]]) // cores],
            core=timed.core.names[int(group[order[first]]) % cores],
            count=int(last - first + 1),
            total_us=float(total),
            share=float(total) / everything if everything else 0.0,
            mean_us=float(total) / int(last - first + 1),
            min_us=float(timed.duration_us[order[first]]),
            longest=timed.duration_of(int(order[last])),
        )
        for first, last, total in zip(firsts, lasts, sums, strict=True)
    ]
    return sorted(totals, key=lambda t: (-t.total_us, t.operator, t.core))
