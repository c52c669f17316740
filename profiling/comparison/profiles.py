"""Samples from profilers' files: times of measured launches, counts of simulated ones."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from profiling import analysis
from profiling.comparison.measurement import Kernel, Key, Metric
from profiling.provenance import WITHOUT_NOISE
from profiling.records import Figure, FileKind, Labels, OpProfile, Profile, Table, Tasks

TASK_TIME = Metric(name="task time", unit="us")
#: Files of tasks that are kernels; task_time has events of the scheduler, too.
_TASK_FILES = (FileKind.KERNEL_DETAILS, FileKind.OP_SUMMARY)


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Values of one key from one place; `where` is of the first."""

    key: Key
    values: tuple[float, ...]
    where: str


@dataclass(frozen=True, kw_only=True)
class Count:
    """A figure of a launch that is put together from the rows of one file.

    Args:
        metric: what it is.
        kind: the file.
        columns: whose cells are added up over all cores.
    """

    metric: Metric
    kind: FileKind
    columns: re.Pattern[str]


def _count(name: str, unit: str, kind: FileKind, columns: str) -> Count:
    return Count(metric=Metric(name=name, unit=unit), kind=kind, columns=re.compile(columns))


#: Counts need no clock, so simulated launches are compared by them, and by their bytes.
BYTES_READ = Metric(name="read from global memory", unit="bytes")
BYTES_WRITTEN = Metric(name="written to global memory", unit="bytes")
COUNTS = (
    _count("instructions", "", FileKind.PIPE, r"ai[cv]_[a-z0-9]+_instructions"),
    _count("modelled length", "cycles", FileKind.OP_BASIC_INFO, "task_cycles"),
)
#: The vendor's simulator writes one file per core; a launch is the sum over its cores.
INSTRUCTION_COUNTS = (
    _count("instructions", "", FileKind.INSTRUCTIONS, "call_count"),
    _count("cycles of all instructions", "cycles", FileKind.INSTRUCTIONS, "cycles"),
)


def samples_of(profile: Profile, *, by_type: bool = False) -> Iterator[Samples]:
    """All samples of a profile, in the order of its files.

    by_type: a task is known by the type of its operator only; the kernel's name, shapes and dtypes
    are left out.
    """
    for launch in profile.kernels:
        yield from _launch(launch)
    for tasks in profile.tasks:
        if tasks.kind in _TASK_FILES:
            yield from _tasks(tasks, by_type)
    yield from _instructions(profile)


def _launch(launch: OpProfile) -> Iterator[Samples]:
    blocks = launch.info_figure("block_dim")
    kernel = Kernel(name=launch.name, blocks="" if blocks is None else str(blocks.value))
    time = launch.info_figure("task_duration_us")
    if time is not None and time.evidence not in WITHOUT_NOISE:
        yield from _sum(kernel, TASK_TIME, [time])
    traffic = analysis.traffic_of(launch)
    if traffic is not None and traffic.whole.evidence in WITHOUT_NOISE:
        for metric, moved in ((BYTES_READ, traffic.read), (BYTES_WRITTEN, traffic.written)):
            key = Key(kernel=kernel, metric=metric, evidence=traffic.whole.evidence)
            yield Samples(key=key, values=(moved,), where=str(traffic.whole.where))
    for count in COUNTS:
        tables = [table for kind, table in launch.tables.items() if kind is count.kind]
        figures = _cells(tables, count.columns)
        if figures and figures[0].evidence in WITHOUT_NOISE:
            yield from _sum(kernel, count.metric, figures)


def _tasks(tasks: Tasks, by_type: bool) -> Iterator[Samples]:
    """The durations of each kernel, in the order of the file."""
    nothing = Labels(names=("",), codes=np.zeros(len(tasks), dtype=np.int32))
    parts = (tasks.name or tasks.operator, tasks.shapes or nothing, tasks.dtypes or nothing)
    names, shapes, dtypes = (tasks.operator, nothing, nothing) if by_type else parts
    rows = np.flatnonzero(~np.isnan(tasks.duration_us))
    group = names.codes[rows].astype(np.int64) * len(shapes.names) + shapes.codes[rows]
    group = group * len(dtypes.names) + dtypes.codes[rows]
    order = np.argsort(group, kind="stable")
    rows, group = rows[order], group[order]
    bounds = [*np.flatnonzero(np.diff(group, prepend=-1)).tolist(), len(rows)]
    for start, end in pairwise(bounds):
        first = int(rows[start])
        kernel = Kernel(
            name=names.names[names.codes[first]],
            shape=shapes.names[shapes.codes[first]],
            dtype=dtypes.names[dtypes.codes[first]],
        )
        key = Key(kernel=kernel, metric=TASK_TIME, evidence=tasks.evidence)
        where = str(tasks.duration_of(first).where)
        values = tuple(tasks.duration_us[rows[start:end]].tolist())
        yield Samples(key=key, values=values, where=where)


def _instructions(profile: Profile) -> Iterator[Samples]:
    launches: dict[tuple[str, ...], list[Table]] = defaultdict(list)
    for table in profile.of_kind(FileKind.INSTRUCTIONS):
        launches[_simulated_launch(profile.path, table.file)].append(table)
    for folders, tables in launches.items():
        named = [folder for folder in folders if not folder.isdigit()]
        kernel = Kernel(name=named[-1] if named else "kernel")
        for count in INSTRUCTION_COUNTS:
            figures = _cells(tables, count.columns)
            if figures:
                yield from _sum(kernel, count.metric, figures)


def _simulated_launch(root: str, file: str) -> tuple[str, ...]:
    """The folders of the launch that a core's file belongs to: `<kernel>/<n>/simulator/<core>/`."""
    path = Path(file)
    inside = path.relative_to(root) if path.is_relative_to(root) else path
    folders = inside.parts[:-1]
    return folders[: folders.index("simulator")] if "simulator" in folders else folders[:-1]


def _cells(tables: Iterable[Table], columns: re.Pattern[str]) -> list[Figure]:
    return [
        table.figure(row, key)
        for table in tables
        for key in filter(columns.fullmatch, table.by_key)
        for row in table.rows
        if row.number(key) is not None
    ]


def _sum(kernel: Kernel, metric: Metric, figures: list[Figure]) -> Iterator[Samples]:
    """One sample, the sum of `figures`, which have numbers and one evidence level."""
    key = Key(kernel=kernel, metric=metric, evidence=figures[0].evidence)
    value = sum(figure.number or 0.0 for figure in figures)
    yield Samples(key=key, values=(value,), where=str(figures[0].where))
