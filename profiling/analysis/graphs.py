"""Tasks of a graph against tasks that the host sent one by one: in one file, and in two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernels_npu.errors import UsageError
from profiling.analysis.sentence import Sentence
from profiling.analysis.steps import is_communication, step_use
from profiling.records.profile import Profile
from profiling.records.table import Figure, FileKind
from profiling.records.tasks import Tasks

#: What msprof writes as Model ID of a task that is in no graph: -1 in 32 bits.
NO_MODEL = frozenset({"", "4294967295"})
#: Ours: tasks outside of the graph that cost more of the time are worth capturing.
MUCH_OUTSIDE = 0.20


def graph_sentences(tasks: Tasks) -> Iterator[Sentence]:
    """How the tasks of graphs and the others share the time, in files that tell them apart."""
    outside = np.array([name in NO_MODEL for name in tasks.model.names], dtype=bool)
    if outside.all() or not len(tasks):
        return
    alone = outside[tasks.model.codes] & ~is_communication(tasks)
    inside = ~outside[tasks.model.codes]
    if not inside.any():
        return
    graphs = len(np.unique(tasks.model.codes[inside]))
    busy, wait = np.nan_to_num(tasks.duration_us), np.nan_to_num(tasks.wait_us)
    whole = float((busy + wait)[alone | inside].sum())
    share = float((busy + wait)[alone].sum()) / whole if whole else 0.0
    yield Sentence(
        topic="graph",
        text=f"{int(inside.sum()):,} tasks are of {_count(graphs, 'graph')}, "
        f"{int(alone.sum()):,} were sent one by one and take {share:.1%} of the time; "
        f"median wait before a task: {_wait(tasks, inside)} in graphs, "
        f"{_wait(tasks, alone)} one by one",
        rule="a task with a Model ID is part of a loaded or captured graph, 4294967295 is none; "
        f"the time is durations and waits, communication left out; over {MUCH_OUTSIDE:.0%} one by "
        "one is reported: find out why these tasks are not captured",
        refs=tuple(_longest(tasks, rows) for rows in (inside, alone) if rows.any()),
        flagged=share > MUCH_OUTSIDE,
    )


@dataclass(frozen=True, kw_only=True)
class StepLengths:
    """The steps of one profile: medians over them, in microseconds."""

    steps: int
    span: float
    busy: float
    first: Figure

    @property
    def idle(self) -> float:
        """Of the step, without any task."""
        return self.span - self.busy


def eager_against_graph(eager: Profile, graph: Profile) -> Sentence:
    """The same steps sent one by one and as a graph: where the difference lies.

    Raises:
        UsageError: AI-PROF-061 when one of the profiles has no step with times.
    """
    before, after = _lengths(eager), _lengths(graph)
    few = min(before.steps, after.steps) < 2
    return Sentence(
        topic="graph against eager",
        text=f"a step takes {after.span:,.1f} us instead of {before.span:,.1f} "
        f"({before.span / after.span:.2f}x): {after.idle:,.1f} us without a task instead of "
        f"{before.idle:,.1f}, {after.busy:,.1f} us of tasks instead of {before.busy:,.1f}"
        + ("; one step says nothing about the spread" if few else "")
        + ("" if _has_graphs(graph) else "; no task of it has the Model ID of a graph"),
        rule=f"medians over {before.steps} eager and {after.steps} graph steps, from a step's "
        "first start to its last end; a graph saves the time without tasks, the "
        "tasks stay as they are",
        refs=(
            _derived(before.first, "eager_step_us", before.span),
            _derived(after.first, "graph_step_us", after.span),
        ),
        flagged=after.span > before.span,
    )


def _has_graphs(profile: Profile) -> bool:
    return any(not NO_MODEL.issuperset(tasks.model.names) for tasks in profile.tasks)


def _lengths(profile: Profile) -> StepLengths:
    # Rows of task_time are events of the scheduler, too, which keep no core busy.
    files = [tasks for tasks in profile.tasks if tasks.kind is not FileKind.TASK_TIME]
    steps = [step for tasks in files for step in step_use(tasks) if step.span_us]
    if not steps:
        raise UsageError(
            "AI-PROF-061",
            f"{profile.path} has no step with starts and durations",
            rule="graph and eager are compared by the steps of kernel_details or op_summary",
            fix="name a folder of torch_npu.profiler or msprof with such a file",
        )
    return StepLengths(
        steps=len(steps),
        span=float(np.median([step.span_us for step in steps])),
        busy=float(np.median([step.busy_us for step in steps])),
        first=steps[0].first,
    )


def _wait(tasks: Tasks, rows: NDArray[np.bool_]) -> str:
    waits = tasks.wait_us[rows]
    known = waits[~np.isnan(waits)]
    return f"{float(np.median(known)):.3f} us" if len(known) else "unknown"


def _longest(tasks: Tasks, rows: NDArray[np.bool_]) -> Figure:
    among = np.where(rows, np.nan_to_num(tasks.duration_us, nan=-1.0), -2.0)
    return tasks.duration_of(int(among.argmax()))


def _derived(at: Figure, key: str, value: float) -> Figure:
    return Figure(key=key, value=value, unit="us", evidence=at.evidence, where=at.where)


def _count(number: int, name: str) -> str:
    return f"{number:,} {name}" + "s" * (number != 1)
