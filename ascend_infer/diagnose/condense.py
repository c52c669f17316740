"""What is worth a closer look in a block of lines, and how often its kinds of errors occur.

It depends on nothing but the block, so that several processes can each take another one. A line
is known by its shape, which is its text without digits, and by the codes in it; digits that are
not in a code never decide what a line means. A shape that was not met before is understood only
where one of a few words is in it: a search for a word is much faster than one for a pattern.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from ascend_infer.diagnose.codes import Role
from ascend_infer.diagnose.digest import (
    CONTEXT,
    NOTHING,
    TIME,
    TIME_LENGTH,
    Digest,
    Known,
    Sink,
)
from ascend_infer.diagnose.events import LINE, code_in, read_line
from ascend_infer.diagnose.signatures import WORDS

#: Nothing shorter is an error.
_SHORTEST = 6
_QUIET = (b"[INFO]", b"[DEBUG]", b"[EVENT]", b"[WARNING]", b"[TRACE]")
#: In what stands before the process of an error in the runtime's log.
_LEVELS = (b"[ERROR]", b"[CRITICAL]")
_CAPTURE = b"apture "
_FRAME = b'File "'
_DIGITS = b"0123456789"
_HEXADECIMAL = b"0123456789abcdefABCDEF"
#: Hexadecimal digits of a runtime's code; addresses have more.
_CODE_DIGITS = 5
#: Whatever tells codes apart that have one shape.
_NUMBERS = re.compile(rb"[125]07\d{3}")
_NAMES = re.compile(rb"E(?<!\wE)(?:[A-Z]|RR)?\d{4,5}\b")
#: One of these is in whatever a table explains without a code, or in whatever is an exception or
#: a line of its traceback.
_WORDS = tuple(word.encode() for word in WORDS)
_EXCEPTIONS = (
    *(_FRAME, b"Error", b"Exception", b"Expired", b"Interrupt", b"Exit", b"OutOfMemory"),
    *(b"Timeout", b"StopIteration", b".Empty", b".Full", b".Again", b"most recent call"),
)
_IDENTIFIER = re.compile(rb"[A-Za-z_][A-Za-z_.]*")
#: Lines of unknown shapes in a block after which a search in all of it is worth its time.
_MANY = 400
#: Shapes that are kept; a log of more kinds is looked at more often.
_MOST_SHAPES = 50_000

_Shape: TypeAlias = "tuple[bytes, ...]"


class _Line(NamedTuple):
    """A line of a shape that is not known.

    place: what tells lines of the runtime's log apart before their message. coded: it has what
    looks like a code.
    """

    shape: _Shape
    message: bytes
    place: tuple[bytes, ...]
    coded: bool


class Condenser:
    """Condenses blocks; what it has learnt of shapes is all that it keeps of them."""

    def __init__(self) -> None:
        self._known: dict[_Shape, Known] = {}
        #: By what decides of a shape that was not known.
        self._reduced: dict[_Shape, Known] = {}

    def condense(self, block: bytes) -> Digest:
        """The digest of the lines of a block."""
        lines = block.split(b"\n")
        digest = Digest()
        sink = Sink(lines, digest)
        prose = _Prose(block)
        get = self._known.get
        is_capturing = _CAPTURE in block
        for index, line in enumerate(lines):
            if len(line) < _SHORTEST:
                continue
            if is_capturing and _CAPTURE in line and digest.captures.add(line):
                continue
            if line.startswith(_QUIET):
                continue
            if len(line) > LINE:
                sink.take(index, _understood(line))
                continue
            place: tuple[bytes, ...] = ()
            message, time = line, b""
            start = line.find(TIME)
            if start >= 0:  # the runtime's: module(pid,name):time [place]message
                end = start + TIME_LENGTH
                stop = line.find(b"]", end)
                time = line[start:end]
                # Of the time only what is no digit: a damaged one is none.
                form = time.translate(None, _DIGITS)
                place = (line[: line.rfind(b"(", 0, start)], line[end:stop], form)
                message = line[stop:]
            elif line.lstrip().startswith(_FRAME):
                sink.take(index, CONTEXT)
                continue
            codes: list[bytes] = []
            text = message
            if b"0x" in text:
                parts = text.split(b"0x")
                for number in range(1, len(parts)):
                    part = parts[number]
                    parts[number] = after = part.lstrip(_HEXADECIMAL)
                    if len(part) - len(after) == _CODE_DIGITS:
                        codes.append(part[:_CODE_DIGITS])
                text = b"".join(parts)
            if b"07" in text:
                codes += _NUMBERS.findall(text)
            if b"E" in text:
                codes += _NAMES.findall(text)
            shape = (text.translate(None, _DIGITS), *place, *codes)
            known = get(shape)
            if known is None:
                entry = _Line(shape, message, place, bool(codes))
                known = self._understood(entry, line, prose)
            if known is not NOTHING:
                sink.take(index, known, time)
        sink.close()
        return digest

    def _understood(self, line: _Line, text: bytes, prose: _Prose) -> Known:
        shape = prose.shape(line)
        known = NOTHING if shape is None else self._reduced.get(shape)
        # Of an error's line that reports nothing the head is damaged: others of its shape are not.
        is_quiet = bool(line.place) and not any(level in line.place[0] for level in _LEVELS)
        if known is None:
            known = _understood(text)
            if shape is not None and shape is not line.shape and (known.kind or is_quiet):
                _learn(self._reduced, shape, known)
        if known.kind or is_quiet or not line.place:
            _learn(self._known, line.shape, known)
        return known


def _learn(known: dict[_Shape, Known], shape: _Shape, meaning: Known) -> None:
    if len(known) >= _MOST_SHAPES:
        known.clear()
    known[shape] = meaning


class _Prose:
    """Tells what decides in messages whose shapes are not known; what is left of them is prose."""

    def __init__(self, block: bytes) -> None:
        self._block = block
        self._asked = 0
        self._words: Sequence[bytes] = _WORDS
        self._exceptions: Sequence[bytes] = _EXCEPTIONS

    def shape(self, line: _Line) -> _Shape | None:
        """The shape that is enough to know the line by; None where it reports nothing."""
        self._asked += 1
        if self._asked == _MANY:  # most words are nowhere in a block: one search in all of it
            self._words = [word for word in _WORDS if word in self._block]
            self._exceptions = [word for word in _EXCEPTIONS if word in self._block]
        message = line.message
        if any(map(message.__contains__, self._words)):
            return line.shape
        code = code_in(message.decode("utf-8", errors="replace")) if line.coded else None
        decides = (code or "").encode()
        if line.place:
            return (b"", *line.place, decides)
        if any(map(message.__contains__, self._exceptions)):
            head = message.partition(b": ")[0]
            return line.shape if code or not _IDENTIFIER.fullmatch(head) else (b"", head)
        if code is None:
            return None
        return line.shape if b"INFO" in message or b"DEBUG" in message else (b"", decides)


def _understood(line: bytes) -> Known:
    read = read_line(line)
    if read.context:
        return CONTEXT
    error = read.error
    if error is None:
        return NOTHING
    return Known(
        kind=(error.explanation.key, error.place),
        plog=error.plog,
        exception=error.exception,
        unexplained=error.exception and error.explanation.role is Role.UNKNOWN,
    )
