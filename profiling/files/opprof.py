"""Which files of an OPPROF tree belong to one launch of a kernel.

The tool writes one folder per launch, under as many parents as there are kernels and devices; with
one kernel on one device that folder is the root. So the folder decides, however deep it lies.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from kernels_npu.errors import SourceLocation
from profiling.files.catalogue import timestamp_of
from profiling.files.sources import Source
from profiling.records.kernel import METRICS, OpProfile, info_of
from profiling.records.note import Note, Notes
from profiling.records.table import FileKind, Table

_OF_A_KERNEL = frozenset({FileKind.OP_BASIC_INFO, *METRICS})
_NUMBER = re.compile(r"[0-9]{1,18}")


def kernels_of(files: Iterable[tuple[Source, Table]], notes: Notes) -> Iterator[OpProfile]:
    """The launches that the files describe, in the order of their folders."""
    folders: dict[tuple[str, ...], list[tuple[Source, Table]]] = defaultdict(list)
    for source, table in files:
        if table.kind in _OF_A_KERNEL:
            folders[source.folder].append((source, table))
    for folder, inside in sorted(folders.items(), key=lambda item: _numeric(item[0])):
        name = "/".join(folder) or "."
        for tables in _launches(name, inside, notes):
            info = tables.get(FileKind.OP_BASIC_INFO)
            if info and len(info.rows) > 1:
                notes.add(_several_rows(info))
            yield OpProfile(folder=name, info=info_of(info) if info else None, tables=tables)


def _numeric(folder: tuple[str, ...]) -> list[tuple[bool, int, str]]:
    """A key by which launch 10 comes after launch 9."""
    return [
        (False, int(part), "") if _NUMBER.fullmatch(part) else (True, 0, part) for part in folder
    ]


def _launches(
    folder: str, inside: Sequence[tuple[Source, Table]], notes: Notes
) -> Iterator[dict[FileKind, Table]]:
    """One launch, unless somebody put the files of several together: then by their timestamps.

    Timestamps of one launch differ from file to file, so files are paired by their order.
    """
    by_kind: dict[FileKind, list[tuple[str, Table]]] = defaultdict(list)
    for source, table in inside:
        by_kind[table.kind].append((timestamp_of(source.stem), table))
    for files in by_kind.values():
        files.sort(key=lambda file: file[0])
    most = max(map(len, by_kind.values()))
    if most > 1:
        notes.add(_several(folder, by_kind))
    for turn in range(most):
        yield {kind: files[turn][1] for kind, files in by_kind.items() if turn < len(files)}


def _several_rows(info: Table) -> Note:
    return Note(
        code="AI-PROF-030",
        what=f"{len(info.rows)} rows in OpBasicInfo: nothing tells which the other files belong to",
        where=SourceLocation(info.file, info.rows[1].line),
        rule="msprof writes one row, of the folder's one launch; the first of these is used",
        fix="give each launch its own folder",
    )


def _several(folder: str, by_kind: dict[FileKind, list[tuple[str, Table]]]) -> Note:
    counts = ", ".join(f"{len(files)} of {kind}" for kind, files in sorted(by_kind.items()))
    return Note(
        code="AI-PROF-030",
        what=f"files of several launches in one folder: {counts}",
        where=folder,
        rule="msprof writes one folder per launch; here files are paired in the order of their "
        "timestamps",
        fix="give each launch its own folder",
    )
