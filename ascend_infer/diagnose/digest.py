"""What is kept of a block of lines: those that are looked at, and counts of the others."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from ascend_infer.diagnose.capture import CaptureEvidence
from ascend_infer.diagnose.events import LINE, line_time

#: How far back an error without a time looks for one.
_BACK = 200
#: Lines of a traceback that are kept until an exception ends it.
_MOST_CONTEXT = 256
#: Lines that the text of one exception may have.
TEXT = 40


#: The key of an explanation and the place: what is counted together.
Kind: TypeAlias = "tuple[str, str]"


class Known(NamedTuple):
    """What lines of one shape report; `kind` is None where that is no error."""

    kind: Kind | None
    plog: bool = False
    exception: bool = False
    unexplained: bool = False


NOTHING = Known(None)
#: A line of a traceback before its exception.
CONTEXT = Known(None)


class Notable(NamedTuple):
    """A line to look at.

    kind: of an error of the runtime's log, which nothing but its time tells from others of its
    kind; else None. time: the error's, else that of the nearest line before it that has one; ""
    where none is near. raised: the last exception before it that is no event, or -1.
    """

    at: int
    line: bytes
    kind: Kind | None
    time: str
    raised: int


@dataclass(kw_only=True)
class Digest:
    """A block: its events in their order, and further errors of their kinds.

    rest: errors of kinds that are not kept. raised: the last exception that is no event. time: the
    last that is near the end.
    """

    events: list[Notable] = field(default_factory=list)
    more: dict[Kind, int] = field(default_factory=dict)
    rest: int = 0
    captures: CaptureEvidence = field(default_factory=CaptureEvidence)
    raised: int = -1
    time: str = ""


class Sink:
    """Decides which lines of a block are events, and counts the others.

    kept: the only kinds of which more than the number is kept; None: all.
    """

    def __init__(
        self, lines: Sequence[bytes], digest: Digest, kept: frozenset[Kind] | None
    ) -> None:
        self._lines = lines
        self._digest = digest
        self._kept = kept
        #: The keys of which this block had an event, whatever the place: a file must know them.
        self._keys: set[str] = set()
        #: The earliest time of each kind in this block.
        self._earliest: dict[Kind, bytes] = {}
        #: Up to this line an exception's own text may explain it.
        self._text_until = -1
        self._context: deque[int] = deque(maxlen=_MOST_CONTEXT)
        #: How far a time was looked for.
        self._looked_at = 0

    def take(self, index: int, known: Known, time: bytes = b"") -> None:
        """The next line; `time` as it stands in the runtime's log."""
        kind = known.kind
        if kind is None:
            if known is CONTEXT:
                self._context.append(index)
            return
        if not known.plog:
            time = b""
        elif self._kept is not None and kind not in self._kept and kind[0] in self._keys:
            self._digest.rest += 1
            return
        self._keys.add(kind[0])
        earliest = self._earliest.get(kind)
        if earliest is None or time < earliest or (not known.plog and index <= self._text_until):
            if known.plog:
                self._emit(index, kind, time[2:].decode("ascii", errors="replace"))
            else:
                self._emit(index, None, self._time_before(index))
            self._earliest[kind] = time
            if earliest is None and known.unexplained:
                self._text_until = index + TEXT
        else:
            self._digest.more[kind] = self._digest.more.get(kind, 0) + 1
            if known.exception:
                self._digest.raised = index

    def close(self) -> None:
        """A traceback may go on in the next block."""
        self._emit_context()
        self._digest.time = self._time_before(len(self._lines))

    def _emit(self, index: int, kind: Kind | None, time: str) -> None:
        self._emit_context()
        event = Notable(index, self._lines[index], kind, time, self._digest.raised)
        self._digest.events.append(event)

    def _emit_context(self) -> None:
        for index in self._context:
            self._digest.events.append(Notable(index, self._lines[index], None, "", -1))
        self._context.clear()

    def _time_before(self, index: int) -> str:
        start = max(self._looked_at, index - _BACK)
        self._looked_at = index
        for line in reversed(self._lines[start:index]):
            if time := line_time(line[:LINE].decode("utf-8", errors="replace")):
                return time
        return ""
