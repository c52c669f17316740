"""Which kind of file a header belongs to: its columns decide, the file's name breaks ties."""

from __future__ import annotations

import re

from profiling.files.app_formats import APP_FORMATS
from profiling.files.formats import Format
from profiling.files.op_formats import BASIC_INFO, METRIC_FORMATS
from profiling.records.table import FileKind

#: For files of no known kind: nothing is needed, everything is kept.
UNKNOWN = Format(kind=FileKind.UNKNOWN, source="", columns=(), needs=(), tells=())

#: In the order in which their columns are looked for: metrics of a core are in kernel tables, too.
FORMATS = (BASIC_INFO, *APP_FORMATS, *METRIC_FORMATS)
_BY_KIND = {format.kind: format for format in (*FORMATS, UNKNOWN)}

#: `PipeUtilization_20260605155158123.csv`: of several kernels, the tool keeps its timestamp.
_SUFFIX = re.compile(r"_(\d{14,})$")


def format_of(header: list[str], stem: str) -> Format:
    """The format of a file with these columns and this name without `.csv`."""
    named = [f for f in FORMATS if _is_named(f.kind, stem)]
    for candidate in (*named, *FORMATS):
        if candidate.fits(frozenset(map(candidate.key, header))):
            return candidate
    # A file that lost the columns that tell it apart is still what its name says, if any fits.
    for candidate in named:
        if sum(candidate.key(name) in candidate.known for name in header) * 2 > len(header):
            return candidate
    return UNKNOWN


def timestamp_of(stem: str) -> str:
    """The timestamp in a file's name, empty when it has none."""
    match = _SUFFIX.search(stem)
    return match[1] if match else ""


def _is_named(kind: FileKind, stem: str) -> bool:
    """`Memory` is a part of `MemoryUB`, and is not meant there."""
    return re.search(rf"(?<![A-Za-z]){kind.value}(?![A-Za-z0-9])|{kind.value}_", stem) is not None
