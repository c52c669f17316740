"""Lines of logs of any size, a block at a time and in bounded memory."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from kernels_npu.errors import UsageError

_BLOCK = 1 << 20
_SUFFIXES = (".log", ".log.gz", ".txt", ".err", ".out")


def log_files(paths: Iterable[str], unreadable: list[str]) -> list[str]:
    """The named files and the logs under named folders; `-` is standard input.

    Raises UsageError for a name that does not exist, and where there is no log at all. Folders
    that may not be listed are added to `unreadable`.
    """
    found: list[str] = []
    for name in paths:
        if name == "-":
            found.append(name)
        elif os.path.isdir(name):
            found += _under(name, unreadable)
        elif os.path.exists(name):
            found.append(name)
        else:
            raise UsageError("AI-CLI-004", f"{name} does not exist", fix="name a log or a folder")
    if not found and not unreadable:
        raise UsageError(
            "AI-CLI-004",
            f"no log below {', '.join(paths)}",
            rule=f"a log's name ends in {', '.join(_SUFFIXES)}",
            fix="name the file itself",
        )
    return found


def _under(folder: str, unreadable: list[str]) -> Iterator[str]:
    def note(error: OSError) -> None:
        unreadable.append(f"{error.filename}: {error.strerror}")

    for parent, folders, files in os.walk(folder, onerror=note):
        folders.sort()
        for file in sorted(files):
            path = Path(parent, file)
            if file.endswith(_SUFFIXES) and path.is_file():
                yield str(path)


def total_size(files: Iterable[str]) -> int | None:
    """Bytes of all files as they lie on disk; None where standard input is among them."""
    sizes = 0
    for file in files:
        if file == "-":
            return None
        try:
            sizes += os.path.getsize(file)
        except OSError:  # it will be noted as unreadable
            continue
    return sizes


def line_blocks(
    file: str, unreadable: list[str], progress: Callable[[int], None]
) -> Iterator[tuple[int, bytes]]:
    """The number of the first line, which starts at 1, and whole lines without the last one's end.

    What cannot be read is noted, what came before it is kept.

    progress: told the bytes of every block, of a compressed file those on disk.
    """
    try:
        with _opened(file) as (stream, position):
            done = 0
            for number, block in _whole_lines(_utf8(stream)):
                yield number, block
                progress(position() - done)
                done = position()
    except (OSError, EOFError, zlib.error) as error:
        unreadable.append(f"{file}: {getattr(error, 'strerror', None) or error}")


@contextlib.contextmanager
def _opened(file: str) -> Iterator[tuple[BinaryIO, Callable[[], int]]]:
    """A file as a stream of its text, and how far into it on disk the reading is."""
    with open(0 if file == "-" else file, "rb", closefd=file != "-") as raw:
        position = raw.tell if raw.seekable() else lambda: 0
        if file.endswith(".gz"):
            yield cast(BinaryIO, gzip.GzipFile(fileobj=raw)), position
        else:
            yield raw, position


def _utf8(stream: BinaryIO) -> Iterator[bytes]:
    """The blocks of a stream; UTF-16, which some terminals write, as UTF-8."""
    decoder: codecs.IncrementalDecoder | None = None
    first = True
    while block := stream.read(_BLOCK):
        if first and block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            decoder = codecs.getincrementaldecoder("utf-16")("replace")
        first = False
        yield block if decoder is None else decoder.decode(block).encode(errors="replace")


def _whole_lines(blocks: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    carry, number = b"", 1
    for block in blocks:
        whole, end, rest = block.rpartition(b"\n")
        if end:
            yield number, carry + whole
            number += whole.count(b"\n") + 1
            carry = rest
        else:
            carry += block
            if len(carry) >= _BLOCK:  # a "line" of a megabyte is looked at in pieces
                yield number, carry
                carry = b""
    if carry:
        yield number, carry
