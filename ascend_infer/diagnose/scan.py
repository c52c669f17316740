"""One log file, line by line: each kind of line is understood once and then only counted.

A line is known by its shape, which is its text without digits, and by the codes in it. Lines of a
level below an error are passed over but for those about capture. What a line means is worked out
in `_look_at`; everything before it is there so that a log of which every line is an error is read
as fast as the machine splits lines. Digits that are not in a code never decide what a line means.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from ascend_infer.diagnose.catalogue import explains_exceptions
from ascend_infer.diagnose.codes import Role
from ascend_infer.diagnose.events import (
    TRACEBACK,
    LogError,
    line_time,
    parse_error,
    python_frame,
    split_prefix,
)
from ascend_infer.diagnose.groups import UNSEEN, ErrorGroup, Groups
from ascend_infer.diagnose.signatures import WORDS
from ascend_infer.diagnose.tracebacks import Tracebacks

#: What is looked at of one line.
_LINE = 4096
_QUIET = (b"[INFO]", b"[DEBUG]", b"[EVENT]", b"[WARNING]", b"[TRACE]")
_CAPTURE = b"apture "
_DIGITS = b"0123456789"
#: The end of the process and the beginning of the time; places differ by the digits after it.
_TIME = b"):2"
_TIME_LENGTH = len("):2026-03-10-16:49:31.543.228")
_HEXADECIMAL = b"0123456789abcdefABCDEF"
#: Hexadecimal digits of a runtime's code; addresses have more.
_CODE_DIGITS = 5
#: Whatever tells codes apart that have one shape.
_NUMBERS = re.compile(rb"[125]07\d{3}")
_NAMES = re.compile(rb"E(?<!\wE)(?:[A-Z]|RR)?\d{4,5}\b")
_WORDS = tuple(word.encode() for word in WORDS)
#: Shapes that are kept; a log of more kinds is looked at more often.
_MOST_SHAPES = 50_000
#: How far back an error without a time looks for one.
_BACK = 200
#: Lines that the text of one exception may have.
_TEXT = 40

_Shape: TypeAlias = "bytes | tuple[bytes, ...]"


class FileScan:
    """Reads the blocks of one file in their order; a line without a time has the last one's."""

    def __init__(self, file: str, groups: Groups) -> None:
        self._file = file
        self._groups = groups
        #: What a shape led to: a group to count in, None for nothing.
        self._known: dict[_Shape, ErrorGroup | None] = {}
        self._tracebacks = Tracebacks()
        self._time = ""
        #: The kind of error that this file has first.
        self._first: str | None = None
        #: An unexplained exception and its line, until a line of its own text explains it.
        self._unexplained: tuple[ErrorGroup, str, int] | None = None
        self._without_time: list[ErrorGroup] = []
        #: The line of the last exception that was only counted.
        self._raised_at = 0
        #: How far into the present block a time was looked for.
        self._looked_at = 0

    def read(self, first: int, lines: list[bytes]) -> None:
        """Look at a block of lines, of which the first has the number `first`."""
        known = self._known
        self._looked_at = 0
        for index, line in enumerate(lines):
            if line.startswith(_QUIET):
                if _CAPTURE in line:
                    self._groups.captures.add(line)
                continue
            if len(line) > _LINE:
                self._look_at(line, None, first + index, lines, index)
                continue
            codes: list[bytes] = []
            text, time, plain = line, b"", -1
            start = line.find(_TIME)
            if start >= 0:  # the runtime's: module(pid,name):time [place]message
                end = start + _TIME_LENGTH
                time = line[start:end]
                stop = line.find(b"]", end)
                codes = [line[: line.rfind(b"(", 0, start)], line[end:stop]]
                plain = len(codes)
                text = line[stop:]
            if b"0x" in text:
                parts = text.split(b"0x")
                for place in range(1, len(parts)):
                    part = parts[place]
                    parts[place] = after = part.lstrip(_HEXADECIMAL)
                    if len(part) - len(after) == _CODE_DIGITS:
                        codes.append(part[:_CODE_DIGITS])
                text = b"".join(parts)
            if b"07" in text:
                codes += _NUMBERS.findall(text)
            if b"E" in text:
                codes += _NAMES.findall(text)
            bare = text.translate(None, _DIGITS)
            shape: _Shape = (bare, *codes) if codes else bare
            met = known.get(shape, UNSEEN)
            if met is UNSEEN and len(codes) == plain and not any(map(text.__contains__, _WORDS)):
                # Nothing in the message decides: what is new about it is only prose.
                shape = (b"", *codes)
                met = known.get(shape, UNSEEN)
            if met is None:
                continue
            if met is not UNSEEN and (not met.timed or time >= met.time_bytes):
                met.count += 1
                if met.exception:
                    self._raised_at = first + index
                continue
            self._look_at(line, shape, first + index, lines, index)
        self._time_before(lines, len(lines))

    def _look_at(
        self, line: bytes, shape: _Shape | None, number: int, lines: list[bytes], index: int
    ) -> None:
        if _CAPTURE in line and self._groups.captures.add(line):
            return
        text = line[:_LINE].decode("utf-8", errors="replace").rstrip("\r")
        prefix, rest = split_prefix(text)
        if rest.lstrip().startswith(TRACEBACK):
            self._tracebacks.begin(prefix, number)
            return
        frame = python_frame(rest)
        if frame is not None:
            self._tracebacks.frame(prefix, *frame, number)
            return
        error = parse_error(rest)
        if error is None and len(line) > _LINE:
            error = parse_error(_part_that_matters(line))
        if error is None:
            self._know(shape, None)
            return
        time = error.time or self._time_before(lines, index)
        if time and self._without_time:
            for early in self._without_time:  # what came before the first time is not after it
                early.time = early.time or time
            self._without_time.clear()
        group = self._groups.add(
            error,
            file=self._file,
            number=number,
            time=time,
            frame=self._frame(error, prefix, number),
        )
        if not time and not group.time:
            self._without_time.append(group)
        self._relate(error, group, prefix, number)
        self._know(shape, group)

    def _know(self, shape: _Shape | None, group: ErrorGroup | None) -> None:
        if shape is None:
            return
        if len(self._known) >= _MOST_SHAPES:
            self._known.clear()
        self._known[shape] = group

    def _frame(self, error: LogError, prefix: str, number: int) -> str | None:
        if error.plog:
            return None
        self._tracebacks.forget_before(self._raised_at)
        if error.exception:
            return self._tracebacks.raised(prefix, number)
        return self._tracebacks.continued(prefix, number)

    def _relate(self, error: LogError, group: ErrorGroup, prefix: str, number: int) -> None:
        """What this error says of the ones before it in this file."""
        key, role = error.explanation.key, error.explanation.role
        if error.exception:
            unexplained = role is Role.UNKNOWN and group.count == 1
            self._unexplained = (group, prefix, number) if unexplained else None
        elif self._unexplained and not error.plog and explains_exceptions(error.explanation):
            raised, its_prefix, line = self._unexplained
            if its_prefix == prefix and self._raised_at < line and number - line <= _TEXT:
                raised.explained_by = key
                if self._first == raised.explanation.key:
                    self._first = key
            self._unexplained = None
        if self._first not in (None, key):
            group.preceded = True
        if role is not Role.SYMPTOM:
            self._first = self._first or key

    def _time_before(self, lines: list[bytes], index: int) -> str:
        for line in reversed(lines[max(self._looked_at, index - _BACK) : index]):
            time = line_time(line[:_LINE].decode("utf-8", errors="replace"))
            if time:
                self._time = time
                break
        self._looked_at = index
        return self._time


def _part_that_matters(line: bytes) -> str:
    found = re.search(rb"rror|ERROR|[125]07\d{3}", line)
    start = max(0, found.start() - _LINE // 2) if found else 0
    return line[start : start + _LINE].decode("utf-8", errors="replace")
