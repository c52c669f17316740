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
    known = ~np.isnan(tasks.duration_us)
    timed = tasks if known.all() else tasks.select(known)
    if not len(timed):
        return []
    cores = len(timed.core.names)
    group = timed.operator.codes.astype(np.int64) * cores + timed.core.codes
    # NumPy sorts 16-bit keys by counting them, which a million tasks of some dozen operators need.
    order = np.argsort(group.astype(np.min_scalar_type(int(group.max()))), kind="stable")
    durations, group = timed.duration_us[order], group[order]
    firsts = np.flatnonzero(np.diff(group, prepend=-1))
    counts = np.diff(firsts, append=len(group))
    sums, least = np.add.reduceat(durations, firsts), np.minimum.reduceat(durations, firsts)
    everything = float(durations.sum())
    totals = []
    for place, first in enumerate(firsts):
        count, total = int(counts[place]), float(sums[place])
        longest = first + int(durations[first : first + count].argmax())
        operator, core = divmod(int(group[first]), cores)
        totals.append(
            OperatorTotal(
                operator=timed.operator.names[operator],
                core=timed.core.names[core],
                count=count,
                total_us=total,
                share=total / everything if everything else 0.0,
                mean_us=total / count,
                min_us=float(least[place]),
                longest=timed.duration_of(int(order[longest])),
            )
        )
    return sorted(totals, key=lambda t: (-t.total_us, t.operator, t.core))
