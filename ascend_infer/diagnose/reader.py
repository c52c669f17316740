"""Lines of interest in logs of any size: blocks of bytes, one filter, bounded memory."""

from __future__ import annotations

import gzip
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from kernels_npu.errors import UsageError

_BLOCK = 1 << 20
#: What is looked at of one line.
_LINE = 4096
_INTERESTING = re.compile(
    rb'rror|ERROR|apture (?:begin s|end s|model e)|Title\(|File "|ot support Generator'
)
_SUFFIXES = (".log", ".log.gz", ".txt", ".err", ".out")


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line that passed the filter; `number` starts at 1, or is 0 where it was not counted."""

    file: str
    number: int
    data: bytes


def log_files(paths: Iterable[str], unreadable: list[str]) -> Iterator[str]:
    """The named files and the logs under named folders; `-` is standard input.

    Raises UsageError for a name that does not exist. Folders that may not be listed are added to
    `unreadable`.
    """
    for name in paths:
        if name == "-":
            yield name
        elif os.path.isdir(name):
            for folder, folders, files in os.walk(name, onerror=_noted(unreadable)):
                folders.sort()
                for file in sorted(files):
                    path = Path(folder, file)
                    if file.endswith(_SUFFIXES) and path.is_file():
                        yield str(path)
        elif os.path.exists(name):
            yield name
        else:
            raise UsageError("AI-CLI-004", f"{name} does not exist", fix="name a log or a folder")


def _noted(unreadable: list[str]) -> Callable[[OSError], None]:
    return lambda error: unreadable.append(f"{error.filename}: {error.strerror}")


def interesting_lines(
    file: str, unreadable: list[str], progress: Callable[[int], None]
) -> Iterator[Line]:
    """The lines that may matter; what cannot be read is noted, what came before it is kept.

    progress: told the bytes of every block.
    """
    try:
        with _open(file) as stream:
            yield from _filtered(file, stream, progress)
    except (OSError, EOFError, zlib.error) as error:
        unreadable.append(f"{file}: {getattr(error, 'strerror', None) or error}")


def _open(file: str) -> BinaryIO:
    if file == "-":
        return open(sys.stdin.fileno(), "rb", closefd=False)
    if file.endswith(".gz"):
        return gzip.open(file, "rb")  # type: ignore[return-value]
    return open(file, "rb")


def _filtered(file: str, stream: BinaryIO, progress: Callable[[int], None]) -> Iterator[Line]:
    carry, number = b"", 1
    while block := stream.read(_BLOCK):
        progress(len(block))
        data = carry + block
        end = data.rfind(b"\n") + 1
        if not end and len(data) >= _BLOCK:
            end = len(data)  # a "line" of a megabyte is looked at in pieces
        carry = data[end:]
        yield from _matches(file, data, end, number)
        number += data.count(b"\n", 0, end)
    yield from _matches(file, carry, len(carry), number)


def _matches(file: str, data: bytes, end: int, number: int) -> Iterator[Line]:
    counted = 0
    found = _INTERESTING.search(data, 0, end)
    while found:
        start = data.rfind(b"\n", 0, found.start()) + 1
        stop = data.find(b"\n", found.start(), end)
        stop = end if stop < 0 else stop
        number += data.count(b"\n", counted, start)
        counted = start
        # A long line is shown around what matched.
        start = max(start, found.start() - _LINE // 2)
        yield Line(file=file, number=number, data=data[start : min(stop, start + _LINE)])
        found = _INTERESTING.search(data, stop, end)
