"""Bytes of a profiler's file as lines of text, whatever wrote or edited them."""

from __future__ import annotations

import codecs

from profiling.records.note import Note, Notes

#: UTF-16 comes from spreadsheets and PowerShell, GBK from Chinese Windows.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def encoding_of(start: bytes) -> str:
    """The encoding that a byte order mark announces, UTF-8 without one."""
    return next((name for mark, name in _MARKS if start.startswith(mark)), "utf-8")


def decode(data: bytes, file: str, notes: Notes, *, encoding: str = "") -> str:
    """All of `data` as text; what is no text is replaced and noted."""
    encoding = encoding or encoding_of(data)
    for candidate in (encoding, "gbk"):
        try:
            text = data.decode(candidate)
            break
        except UnicodeDecodeError:
            continue
    else:
        text = data.decode(encoding, errors="replace")
        notes.add(_not_text(file, "bytes that are neither UTF-8 nor GBK"))
    if "\0" in text:
        notes.add(_not_text(file, "NUL characters"))
        text = text.replace("\0", "")
    return text


def lines_of(text: str) -> list[str]:
    """The lines without their ends; line `n` of the file is number `n - 1`."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if lines and not lines[-1]:
        lines.pop()
    return lines


def _not_text(file: str, found: str) -> Note:
    return Note(
        code="AI-PROF-026",
        what=f"{found} in a text file",
        where=file,
        rule="profiler files are UTF-8; GBK and UTF-16 are read, too",
        fix="copy the file again in binary mode; names may be wrong, figures are not affected",
    )
