"""Everything below a path, read."""

from __future__ import annotations

import os
from pathlib import Path

from kernels_npu.errors import UsageError
from profiling.files.opprof import kernels_of
from profiling.files.origins import with_origins
from profiling.files.sources import UNREADABLE, Source, sources_below, unreadable
from profiling.files.tables import read_table
from profiling.files.tasks import LABELS, LARGE, NAMED, TASK_KINDS, LabelKeys, read_tasks, tasks_of
from profiling.files.traces import read_trace
from profiling.records.note import Notes
from profiling.records.profile import Profile
from profiling.records.table import FileKind, Table
from profiling.records.tasks import Tasks
from profiling.records.trace import Trace


def read_profile(path: str | os.PathLike[str], *, named: bool = False) -> Profile:
    """What profilers wrote at `path`: a file, a folder or a zip archive.

    Whatever is wrong with a file is in `Profile.notes`, and the rest is read.

    named: also keep the name, shapes and dtypes of every task of an application.

    Raises:
        UsageError: AI-PROF-020, there is nothing of a profiler's.
        EnvironmentProblem: AI-PROF-032, a file is large and polars is missing.
    """
    notes = Notes()
    labels: LabelKeys = NAMED if named else LABELS
    files: list[tuple[Source, Table]] = []
    tasks: list[Tasks] = []
    traces: list[Trace] = []
    sources, manifests = with_origins(sources_below(Path(path), notes), Path(path), notes)
    for source in sources:
        try:
            found = _read(source, notes, labels)
        except (*UNREADABLE, MemoryError) as error:
            notes.add(unreadable(source.name, error))
            continue
        if isinstance(found, Table):
            files.append((source, found))
            if found.kind in TASK_KINDS:
                tasks.append(tasks_of(found, labels))
        elif isinstance(found, Tasks):
            tasks.append(found)
        elif found is not None:
            traces.append(found)
    known = [table for _, table in files if is_known(table)]
    if not (known or tasks or traces or _is_a_table(path, files, notes)):
        raise _nothing(Path(path), notes)
    return Profile(
        path=str(path),
        kernels=tuple(kernels_of(files, notes)),
        tasks=tuple(tasks),
        tables=tuple(table for _, table in files),
        traces=tuple(traces),
        notes=notes.all(),
        manifests=manifests,
    )


def _read(source: Source, notes: Notes, labels: LabelKeys) -> Table | Tasks | Trace | None:
    if source.suffix == ".json":
        return read_trace(source, notes)
    if source.size > LARGE:
        tasks = read_tasks(source, notes, labels)
        if tasks is not None:
            return tasks
    return read_table(source, notes)


def is_known(table: Table) -> bool:
    """Whether a file is one of a profiler's."""
    return table.kind is not FileKind.UNKNOWN


def _is_a_table(
    path: str | os.PathLike[str], files: list[tuple[Source, Table]], notes: Notes
) -> bool:
    """Whether a file that was named holds rows of text, of whatever kind.

    A folder of other people's tables is a mistake, and so is a file of bytes.
    """
    is_text = all(note.code != "AI-PROF-026" for note in notes.all())
    return Path(path).is_file() and is_text and any(table.rows for _, table in files)


def _nothing(path: Path, notes: Notes) -> UsageError:
    told = "; ".join(note.what for note in notes.all()[:3])
    return UsageError(
        "AI-PROF-020",
        f"no profiler's file can be read at {path}" + (f": {told}" if told else ""),
        rule="PATH is a profiler's file, a folder that holds some, or a zip archive of one",
        fix="name the OPPROF_..., PROF_... or *_ascend_pt folder",
    )
