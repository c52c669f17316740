"""What is worth a closer look in a block of lines, and how often its kinds of errors occur.

It depends on nothing but the block, so that several processes can each take another one. A line
is known by what decides of it, so that each kind of line is understood once: the place and the code
of what the runtime logs, the name of an exception. Where a text decides, which a table explains,
that is its shape: the text whatever its numbers, and the codes in it.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from ascend_infer.diagnose.codes import Role
from ascend_infer.diagnose.digest import CONTEXT, NOTHING, Digest, Kind, Known, Sink
from ascend_infer.diagnose.events import (
    COLOUR,
    LEVELS,
    LINE,
    TIME,
    code_in,
    is_quiet,
    read_line,
    runtime_kind,
    split_prefix,
)
from ascend_infer.diagnose.marks import (
    CAPTURE,
    CODE,
    EXCEPTION,
    FRAME,
    RUNTIME,
    WORD,
    marked_lines,
)

_QUIET = (b"[INFO]", b"[DEBUG]", b"[EVENT]", b"[WARNING]", b"[TRACE]")
#: In what stands before the process of an error in the runtime's log.
_LEVELS = tuple(f"[{level}]".encode() for level in LEVELS)
_TIME = TIME.encode()
_TIME_LENGTH = len("):2026-03-10-16:49:31.543.228")
_FRAME = b'File "'
_DIGITS = b"0123456789"
_ZEROS = bytes.maketrans(_DIGITS, b"0" * len(_DIGITS))
_HEXADECIMAL = b"0123456789abcdefABCDEF"
#: Hexadecimal digits of a runtime's code; addresses have more.
_CODE_DIGITS = 5
#: Whatever tells codes apart that have one shape.
_NUMBERS = re.compile(rb"(?<!\d)[125]07\d{3}(?!\d)")
_NAMES = re.compile(rb"E(?<!\wE)(?:[A-Z]|RR)?\d{4,5}\b")
_COLOUR = re.compile(COLOUR.encode())
_IDENTIFIER = re.compile(rb"[A-Za-z_][A-Za-z_.]*")
#: Shapes that are kept; a log of more kinds is looked at more often.
_MOST_SHAPES = 50_000

_Shape: TypeAlias = "tuple[bytes | str, ...]"


class Condenser:
    """Condenses blocks; what it has learnt of shapes is all that it keeps of them."""

    def __init__(self) -> None:
        self._known: dict[_Shape, Known] = {}

    def condense(self, block: bytes, kept: frozenset[Kind] | None = None) -> Digest:
        """The digest of the lines of a block. kept: see `Sink`."""
        if b"\x1b" in block:
            block = _COLOUR.sub(b"", block)
        lines = block.split(b"\n")
        digest = Digest()
        sink = Sink(lines, digest, kept)
        for index, marks in marked_lines(block):
            line = lines[index]
            if marks & CAPTURE and digest.captures.add(line):
                continue
            if line.startswith(_QUIET):
                continue
            if len(line) > LINE:
                sink.take(index, _understood(line))
                continue
            start = line.find(_TIME) if marks & RUNTIME else -1
            if start >= 0:
                known = self._runtimes(line, start, marks)
                time = line[start : start + _TIME_LENGTH]
            elif marks & FRAME and line.lstrip().startswith(_FRAME):
                known, time = CONTEXT, b""
            else:
                known, time = self._screens(line, marks), b""
            if known is not NOTHING:
                sink.take(index, known, time)
        sink.close()
        return digest

    def _runtimes(self, line: bytes, start: int, marks: int) -> Known:
        """Of the runtime's log: `module(pid,name):time [place]message`, its time at `start`."""
        end = start + _TIME_LENGTH
        stop = line.find(b"]", end)
        head, _, process = line[:start].rpartition(b"(")
        # Of process and time all but the digits' values: a damaged one is none.
        form = (process + line[start:end]).translate(_ZEROS)
        place = line[end:stop]
        code = _code(line[stop:]) if marks & CODE and not marks & WORD else ""
        text = _shape(line[stop:]) if marks & WORD else (code,)
        shape: _Shape = (head, place, form, *text)
        known = self._known.get(shape)
        if known is None:
            if not marks & WORD and line.startswith(_LEVELS):
                kind = runtime_kind(line, code)
                known = Known(kind, plog=True) if kind else _understood(line)
            else:
                known = _understood(line)
            # An error's line that is none of the runtime's is damaged: others of its shape are not.
            if known.plog or not (known.kind or any(level in head for level in _LEVELS)):
                self._learn(shape, known)
        return known

    def _screens(self, line: bytes, marks: int) -> Known:
        """Of anything else."""
        if b"INFO" in line or b"DEBUG" in line:
            is_context = marks & (FRAME | EXCEPTION)
            if not is_context and is_quiet(*split_prefix(_text(line))):
                return NOTHING
        shape = self._screens_shape(line, marks)
        if shape is None:
            return NOTHING
        known = self._known.get(shape)
        if known is None:
            known = _understood(line)
            # Where a code or a name decides, what silences one line does not silence the others.
            if known.kind or shape[0]:
                self._learn(shape, known)
        return known

    @staticmethod
    def _screens_shape(line: bytes, marks: int) -> _Shape | None:
        """What is enough to know the line by; None where it reports nothing."""
        if marks & WORD:
            return _shape(line)
        code = _code(line) if marks & CODE else ""
        if marks & (EXCEPTION | FRAME):
            name = line.partition(b": ")[0]
            return _shape(line) if code or not _IDENTIFIER.fullmatch(name) else (b"", name)
        return (b"", code) if code else None

    def _learn(self, shape: _Shape, meaning: Known) -> None:
        if len(self._known) >= _MOST_SHAPES:
            self._known.clear()
        self._known[shape] = meaning


def _text(line: bytes) -> str:
    return line.decode("utf-8", errors="replace")


def _code(message: bytes) -> str:
    """The code in a message, "" where there is none."""
    return code_in(_text(message)) or ""


def _shape(message: bytes) -> tuple[bytes, ...]:
    """The message with a zero for every number, and what may be a code in it."""
    codes: list[bytes] = []
    text = message
    if b"0x" in text:
        parts = text.split(b"0x")
        for number in range(1, len(parts)):
            part = parts[number]
            parts[number] = after = part.lstrip(_HEXADECIMAL)
            if len(part) - len(after) == _CODE_DIGITS:
                codes.append(part[:_CODE_DIGITS])
        text = b"x".join(parts)
    if b"07" in text:
        codes += _NUMBERS.findall(text)
    if b"E" in text:
        codes += _NAMES.findall(text)
    text = text.translate(_ZEROS)
    while b"00" in text:
        text = text.replace(b"00", b"0")
    return (text, *codes)


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
