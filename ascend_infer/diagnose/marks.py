"""Finds the lines of a block that may matter: all others report nothing, whatever they say.

Whatever a table or a pattern of `events` recognises has one of a few thousand sequences of four
bytes in it, called grams here. All grams of a block are looked up at once, so that a line without
any costs nothing more, however it differs from the lines before it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from string import ascii_uppercase, digits

import numpy as np
import numpy.typing as npt

from ascend_infer.diagnose.events import TIME
from ascend_infer.diagnose.signatures import WORDS

#: What is marked: a word of a text that a table explains; an exception, or what begins or ends a
#: traceback; a code; the runtime's own head of a line; a frame of a traceback; a capture.
WORD, EXCEPTION, CODE, RUNTIME, FRAME, CAPTURE = (1 << bit for bit in range(6))
_KINDS = (WORD, EXCEPTION, CODE, RUNTIME, FRAME, CAPTURE)

#: One of these is in whatever is an exception or begins a traceback.
_EXCEPTIONS = (
    *("Error", "Exception", "Expired", "Interrupt", "Exit", "OutOfMemory", "Timeout"),
    *("StopIteration", ".Empty", ".Full", ".Again", "most recent call"),
)
_GRAM = 4
#: Letters by how common they are; whatever is not here is rarer.
_COMMON = " etaoinsrhldcumfpgwybvkxqjz"
#: First and last number of the runtime's codes, which hexadecimal numbers name as well.
_CODES = ((107000, 107999), (207000, 207999), (507000, 507999))


def _rarest(word: str, *, beside: Iterable[str] = ()) -> str:
    """The gram of `word` that fewest other texts have; none that is in the words `beside` it."""
    grams = [word[start : start + _GRAM] for start in range(len(word) - _GRAM + 1)]
    grams = [gram for gram in grams if not any(gram in other for other in beside)] or grams
    rank = {letter: rank for rank, letter in enumerate(_COMMON)}
    return max(grams, key=lambda gram: sum(rank.get(letter, len(_COMMON)) for letter in gram))


def _code_grams() -> Iterator[str]:
    """How numbers and names begin that are codes (see `events.code_in`)."""
    yield from (f"{first}07{digit}" for first in "125" for digit in digits)
    yield from (f"ERR{digit}" for digit in digits)
    for second, pair in itertools.product(ascii_uppercase + digits[1:], range(100)):
        yield f"E{second}{pair:02}"
    starts = {f"{code:x}"[:_GRAM] for first, last in _CODES for code in range(first, last + 1)}
    for start in starts:
        variants = ({digit, digit.upper()} for digit in start)
        yield from ("".join(letters) for letters in itertools.product(*variants))


def _grams() -> Iterator[tuple[str, int]]:
    exceptions = [f"{word}: " for word in _EXCEPTIONS]
    yield from ((_rarest(word, beside=exceptions), WORD) for word in WORDS)
    yield from ((_rarest(word), EXCEPTION) for word in _EXCEPTIONS)
    yield from ((gram, CODE) for gram in _code_grams())
    yield from ((f"{TIME}{more}", RUNTIME) for more in f"{digits}:.-")
    yield (_rarest('File "'), FRAME)
    yield (_rarest("apture "), CAPTURE)


class _Table:
    """The grams as numbers: sorted, with their marks, and a quick test that few others pass."""

    _BITS = 18
    _FACTOR = np.uint32(2654435761)  # Knuth's multiplicative hash

    def __init__(self) -> None:
        marks: dict[int, int] = {}
        for gram, mark in _grams():
            number = int.from_bytes(gram.encode(), "little")
            marks[number] = marks.get(number, 0) | mark
        self._grams = np.array(sorted(marks), np.uint32)
        self._marks = np.array([marks[int(gram)] for gram in self._grams], np.uint8)
        self._quick = np.zeros(1 << self._BITS, np.bool_)
        self._quick[self._hash(self._grams)] = True

    def _hash(self, grams: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        places: npt.NDArray[np.uint32] = (grams * self._FACTOR) >> np.uint32(32 - self._BITS)
        return places

    def find(self, block: bytes) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.uint8]]:
        """Where the grams are in `block`, in no order, and their marks."""
        places, marks = [], []
        for start in range(_GRAM):
            count = (len(block) - start) // _GRAM
            grams = np.frombuffer(block[start : start + max(0, count) * _GRAM], "<u4")
            likely = np.flatnonzero(self._quick[self._hash(grams)])
            found = np.searchsorted(self._grams, grams[likely])
            found[found == len(self._grams)] = 0
            known = self._grams[found] == grams[likely]
            places.append(likely[known] * _GRAM + start)
            marks.append(self._marks[found[known]])
        return np.concatenate(places), np.concatenate(marks)


_TABLE = _Table()


def marked_lines(block: bytes) -> Iterator[tuple[int, int]]:
    """The number of each line of `block` that has marks, counted from 0, and its marks."""
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
    places, found = _TABLE.find(block)
    lines = np.searchsorted(ends, places)
    marks = np.zeros(len(ends) + 1, np.uint8)
    for kind in _KINDS:
        marks[lines[found & kind != 0]] |= kind
    marked = np.flatnonzero(marks)
    return zip(marked.tolist(), marks[marked].tolist())
