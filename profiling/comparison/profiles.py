"""Samples from profilers' files: times of measured launches, counts of simulated ones."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from profiling.comparison.measurement import Kernel, Key, Metric
from profiling.provenance import WITHOUT_NOISE
from profiling.records import Figure, FileKind, OpProfile, Profile, Row, Table, Tasks

TASK_TIME = Metric(name="task time", unit="us")
#: Tables of tasks with a name, shapes and dtypes in each row.
_TASK_TABLES = (FileKind.KERNEL_DETAILS, FileKind.OP_SUMMARY)


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
        columns: whose cells count.
        together: how the cells of all rows become one figure.
    """

    metric: Metric
    kind: FileKind
    columns: re.Pattern[str]
    together: Callable[[Iterable[float]], float] = sum


def _count(name: str, unit: str, kind: FileKind, columns: str) -> Count:
    return Count(metric=Metric(name=name, unit=unit), kind=kind, columns=re.compile(columns))


#: Counts need no clock, so simulated launches are compared by them.
COUNTS = (
    _count("read from memory", "KiB", FileKind.MEMORY, r"read_main_memory_datas_kb"),
    _count("written to memory", "KiB", FileKind.MEMORY, r"write_main_memory_datas_kb"),
    _count("instructions of MTEs", "", FileKind.MEMORY, r"ai[cv]_mte\d_instructions"),
    Count(
        metric=Metric(name="cycles of the longest core", unit="cycles"),
        kind=FileKind.PIPE,
        columns=re.compile(r"ai[cv]_total_cycles"),
        together=max,
    ),
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
    read = {table.file: table for table in profile.tables if table.kind in _TASK_TABLES}
    for tasks in profile.tasks:
        if tasks.kind in _TASK_TABLES:
            yield from _by_type(tasks) if by_type else _by_name(read[tasks.file])
    yield from _instructions(profile)


def knows_types_only(profile: Profile) -> bool:
    """Whether a file was too large for the names and shapes of its tasks to be kept."""
    read = {table.file for table in profile.tables}
    return any(tasks.kind in _TASK_TABLES and tasks.file not in read for tasks in profile.tasks)


def _launch(launch: OpProfile) -> Iterator[Samples]:
    blocks = launch.info_figure("block_dim")
    kernel = Kernel(name=launch.name, blocks="" if blocks is None else str(blocks.value))
    time = launch.info_figure("task_duration_us")
    if time is not None and time.evidence not in WITHOUT_NOISE:
        yield from _samples(kernel, TASK_TIME, [time], sum)
    for count in COUNTS:
        tables = [table for kind, table in launch.tables.items() if kind is count.kind]
        figures = _cells(tables, count.columns)
        if figures and figures[0].evidence in WITHOUT_NOISE:
            yield from _samples(kernel, count.metric, figures, count.together)


def _by_name(table: Table) -> Iterator[Samples]:
    for row in table.rows:
        if row.number("duration_us") is not None:
            duration = table.figure(row, "duration_us")
            yield from _samples(_kernel_of(row), TASK_TIME, [duration], sum)


def _kernel_of(row: Row) -> Kernel:
    return Kernel(
        name=row.text("op_name") or row.text("op_type"),
        shape=row.text("input_shapes"),
        dtype=row.text("input_data_types"),
    )


def _by_type(tasks: Tasks) -> Iterator[Samples]:
    known = ~np.isnan(tasks.duration_us)
    for operator, ours in tasks.operator.masks().items():
        rows = np.flatnonzero(ours & known)
        if len(rows):
            key = Key(kernel=Kernel(name=operator), metric=TASK_TIME, evidence=tasks.evidence)
            where = str(tasks.duration_of(int(rows[0])).where)
            yield Samples(key=key, values=tuple(tasks.duration_us[rows].tolist()), where=where)


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
                yield from _samples(kernel, count.metric, figures, count.together)


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


def _samples(
    kernel: Kernel,
    metric: Metric,
    figures: list[Figure],
    together: Callable[[Iterable[float]], float],
) -> Iterator[Samples]:
    """One sample, put together from `figures`, which have numbers and one evidence level."""
    key = Key(kernel=kernel, metric=metric, evidence=figures[0].evidence)
    value = together([figure.number or 0.0 for figure in figures])
    yield Samples(key=key, values=(value,), where=str(figures[0].where))
