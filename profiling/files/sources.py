"""The files below a path: a file, a folder or a zip archive, each read in one way."""

from __future__ import annotations

import lzma
import os
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from kernels_npu.errors import UsageError
from kernels_npu.evidence import Evidence
from profiling.records.note import Note, Notes, Severity

_SUFFIXES = frozenset({".csv", ".json"})
#: What an archive may unpack to: a member that claims more is no profiler's text.
LARGEST_MEMBER = 8 << 30


@dataclass(frozen=True, kw_only=True)
class Source:
    """A file to read.

    Args:
        name: as messages show it.
        place: its parts below the path that was asked for, its own name last.
        size: in bytes, uncompressed.
        path: of the file, or of the archive.
        member: of the archive; empty for a plain file.
        evidence: how a measurement in it came to be known.
    """

    name: str
    place: tuple[str, ...]
    size: int
    path: Path
    member: str = ""
    evidence: Evidence = Evidence.NPU_MEASURED

    @property
    def stem(self) -> str:
        """The name without `.csv`."""
        return PurePosixPath(self.place[-1]).stem

    @property
    def suffix(self) -> str:
        """`.csv` or `.json`, in lower case."""
        return PurePosixPath(self.place[-1]).suffix.lower()

    @property
    def folder(self) -> tuple[str, ...]:
        """Where it lies below the path that was asked for."""
        return self.place[:-1]

    def open(self) -> IO[bytes]:
        """The bytes as a stream."""
        if not self.member:
            return self.path.open("rb")
        return zipfile.ZipFile(self.path).open(self.member)

    def read(self) -> bytes:
        """All bytes."""
        with self.open() as stream:
            return stream.read()


#: What reading a file or a member of an archive raises when the medium is at fault.
UNREADABLE = (
    OSError,
    EOFError,
    RuntimeError,
    NotImplementedError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
)


def sources_below(path: Path, notes: Notes) -> list[Source]:
    """All files that may be a profiler's, in the order of their names.

    Raises:
        UsageError: AI-PROF-020 when `path` does not exist or is a damaged archive.
    """
    try:
        if path.is_dir():
            found = list(_in_folder(path, notes))
        elif path.suffix.lower() == ".zip" or zipfile.is_zipfile(path):
            found = list(_in_archive(path, notes))
        else:
            # The rows' places need a name only; a device or pipe has no size worth trusting
            found = [
                Source(name=str(path), place=(path.name,), size=path.stat().st_size, path=path)
            ]
    except UNREADABLE as error:
        raise UsageError(
            "AI-PROF-020",
            f"{path}: {_reason(error)}",
            rule="PATH is a profiler's file, a folder that holds some, or a zip archive of one",
            fix="name the OPPROF_..., PROF_... or *_ascend_pt folder",
        ) from error
    return sorted(found, key=lambda source: source.place)


#: Rule and fix of what only others may read, and of what nobody can.
_OF_THE_USER = (
    "the files of a profile belong to the user that collected it, often root",
    "chmod -R u+rX, or run as that user",
)
_NOT_WHOLE = (
    "a file that is left out may be damaged, too large, or in an archive that was cut or encrypted",
    "copy or pack the profile again; unzip -t says what is wrong with an archive",
)


def unreadable(name: str, error: Exception) -> Note:
    """The note for a file or folder that cannot be read."""
    rule, fix = _OF_THE_USER if isinstance(error, PermissionError) else _NOT_WHOLE
    return Note(
        code="AI-PROF-021",
        what=f"not readable: {_reason(error)}",
        where=name,
        rule=rule,
        fix=fix,
        severity=Severity.DAMAGE,
    )


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _in_folder(path: Path, notes: Notes) -> Iterator[Source]:
    def note(error: OSError) -> None:
        notes.add(unreadable(str(error.filename), error))

    for folder, folders, names in os.walk(path, onerror=note):
        folders.sort()
        for name in names:
            file = Path(folder, name)
            if file.suffix.lower() not in _SUFFIXES:
                continue
            try:
                # not a pipe or a device, which would block
                if not file.is_file():
                    continue
                size = file.stat().st_size
            except OSError as error:
                notes.add(unreadable(str(file), error))
                continue
            yield Source(name=str(file), place=file.relative_to(path).parts, size=size, path=file)


def _in_archive(path: Path, notes: Notes) -> Iterator[Source]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            place = PurePosixPath(member.filename)
            if member.is_dir() or place.suffix.lower() not in _SUFFIXES:
                continue
            name = f"{path}/{member.filename}"
            if member.file_size > LARGEST_MEMBER:
                notes.add(unreadable(name, OSError(0, f"{member.file_size:,} bytes unpacked")))
                continue
            yield Source(
                name=name,
                place=place.parts,
                size=member.file_size,
                path=path,
                member=member.filename,
            )
