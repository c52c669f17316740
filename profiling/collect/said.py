"""What a profiler and its application said, as far as it tells why there is no data."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from profiling.printable import printable

#: msopprof's warnings about kernels that it left out: all of them, or the one that is named.
_UNMATCHED = re.compile(r"No profiling data matched")
_SKIPPED = re.compile(r"Kernel (\S+) skipped")
#: How programs that end against their will say so; a traceback's reason comes later.
_TRACEBACK = re.compile(r"^Traceback \(most recent call last\):")
_CRASH = re.compile(
    r"Segmentation fault|core dumped|^Fatal Python error|^terminate called|^Aborted\b"
    # and those that did not even begin: no script, no module, no library
    r"|^\S*python[\d.]*: (can't open file|No module named) |error while loading shared libraries:"
)
#: Longest line, names and last lines that are kept.
_LINE, _NAMES, _LAST = 1 << 16, 20, 5


@dataclass(frozen=True, kw_only=True)
class Said:
    """What was found in the outputs.

    Args:
        last: their last lines that are not empty.
        unmatched: whether all kernels were left out for their names.
        skipped: names of kernels that were left out.
        crash: the line that says why a program ended against its will; empty when none does.
    """

    last: tuple[str, ...]
    unmatched: bool
    skipped: tuple[str, ...]
    crash: str


def heard(files: Iterable[Path]) -> Said:
    """What the kept outputs say; a file that is not there says nothing."""
    last: deque[str] = deque(maxlen=_LAST)
    skipped: dict[str, None] = {}
    unmatched, crash = False, ""
    for file in files:
        in_traceback = False
        for line in _lines(file):
            if not line.strip():
                continue
            last.append(line.strip()[:200])
            unmatched = unmatched or _UNMATCHED.search(line) is not None
            name = _SKIPPED.search(line)
            if name and len(skipped) < _NAMES:
                skipped[name[1]] = None
            if _TRACEBACK.search(line):
                in_traceback = True
            elif in_traceback and not line.startswith(" "):
                in_traceback, crash = False, line.strip()[:200]
            elif _CRASH.search(line) and not crash:
                crash = line.strip()[:200]
    return Said(last=tuple(last), unmatched=unmatched, skipped=tuple(skipped), crash=crash)


def _lines(file: Path) -> Iterator[str]:
    """The lines as they can be quoted: without what steers a terminal."""
    try:
        with file.open("rb") as stream:
            while line := stream.readline(_LINE):
                yield printable(line.decode(errors="replace").rstrip("\r\n").expandtabs())
    except OSError:
        return
