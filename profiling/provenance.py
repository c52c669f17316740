"""What the files of a profile tell about the conditions under which they were collected."""

from __future__ import annotations

import dataclasses

from kernels_npu.evidence import Evidence
from profiling.conditions import Conditions
from profiling.records.profile import Profile

#: Levels whose figures are the same in every repetition.
WITHOUT_NOISE = frozenset(
    {Evidence.STATIC_CHECK, Evidence.CPU_VERIFIED, Evidence.SIMULATED, Evidence.MODELLED}
)
#: Of measured times the files tell little; what is not known stays missing.
_MEASURED = Conditions(formulas="duration of a task, as the profiler's file has it")
#: Counts of a simulated launch follow from its inputs and the chip alone.
_COUNTED = Conditions(
    parallelism="one device",
    load="one launch at a time",
    formulas="counts of a simulated launch",
    warm_up_and_caches="counts do not depend on them",
    graph_mode="counts are the same in a graph",
)


def conditions_of(profile: Profile, *, aggregation: str, baseline: str) -> Conditions:
    """The conditions as far as the files tell them; the others stay missing.

    aggregation, baseline: which only those know who make a report of the profile.
    """
    levels = {column.evidence for table in profile.tables for column in table.columns[:1]}
    levels |= {tasks.evidence for tasks in profile.tasks}
    known = _COUNTED if levels and levels <= WITHOUT_NOISE else _MEASURED
    return dataclasses.replace(known, aggregation=aggregation, baseline=baseline)
