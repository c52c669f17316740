"""Which manifest says how a file came to be: the nearest one above it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kernels_npu.errors import UsageError
from profiling import manifest
from profiling.files.sources import UNREADABLE, Source, unreadable
from profiling.manifest import FILE_NAME, Manifest
from profiling.records.note import Note, Notes, Severity


def with_origins(
    sources: Sequence[Source], path: Path, notes: Notes
) -> tuple[list[Source], tuple[Manifest, ...]]:
    """The sources that are no manifests, with the evidence of theirs; and the manifests.

    A manifest above `path` counts, too: a folder of a collection is often looked at by itself.
    """
    inside = {s.folder: _read(s, notes) for s in sources if s.place[-1] == FILE_NAME}
    above = _above(path, notes)
    used: dict[int, Manifest] = {}
    found = []
    for source in sources:
        if source.place[-1] == FILE_NAME:
            continue
        folders = (source.folder[:depth] for depth in range(len(source.folder), -1, -1))
        nearest = next((inside[folder] for folder in folders if folder in inside), above)
        if nearest is not None:
            used[id(nearest)] = nearest
            source = replace(source, evidence=nearest.evidence)
        found.append(source)
    return found, tuple(used.values())


def _read(source: Source, notes: Notes) -> Manifest | None:
    try:
        return manifest.parse(source.read(), source.name)
    except UsageError as error:
        notes.add(_damaged(source.name, error))
    except UNREADABLE as error:
        notes.add(unreadable(source.name, error))
    return None


def _above(path: Path, notes: Notes) -> Manifest | None:
    try:
        return manifest.covering(Path(path.absolute()).parent)
    except UsageError as error:
        notes.add(_damaged(str(path), error))
        return None


def _damaged(where: str, error: UsageError) -> Note:
    return Note(
        code=error.code,
        what=error.what,
        where=where,
        rule=error.rule or "",
        fix=error.fix or "",
        severity=Severity.DAMAGE,
    )
