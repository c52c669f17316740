"""Which frame of a Python traceback to name: the user's own, and only of the error's traceback."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ascend_infer.diagnose.events import IGNORED, NEWEST_FIRST

#: Lines between the last frame and the exception, and between the exception and its further text.
_REACH = 40
#: Lines between the report of an ignored exception and its traceback.
_NEXT = 2
#: Processes that write into one log at once.
_MOST_PREFIXES = 256
_LIBRARY = re.compile(
    r"(?:^|/)(?:site-packages|dist-packages|lib/python[\d.]+|torch|torch_npu)/|^<"
)


@dataclass(kw_only=True)
class _Traceback:
    """`own`: the deepest frame of the user; `last`: the deepest of all. raised: it has ended.

    newest_first: the deepest frame comes first, as where a signal ended the interpreter.
    """

    own: str | None = None
    last: str | None = None
    line: int = 0
    raised: bool = False
    newest_first: bool = False
    ignored: bool = False

    @property
    def frame(self) -> str | None:
        return self.own or self.last


@dataclass(kw_only=True)
class Tracebacks:
    """The traceback that each writer of a log is at, by what it puts before its lines."""

    _of: dict[str, _Traceback] = field(default_factory=dict)

    def begin(self, prefix: str, line: int, text: str = "") -> None:
        """A traceback starts, with `text`."""
        if len(self._of) >= _MOST_PREFIXES:
            self._of.clear()
        before = self._of.get(prefix)
        ignored = text.startswith(IGNORED)
        if before and before.ignored and not before.raised and before.line >= line - _NEXT:
            ignored = True
        self._of[prefix] = _Traceback(line=line, newest_first=NEWEST_FIRST in text, ignored=ignored)

    def frame(self, prefix: str, file: str, number: int, line: int) -> None:
        """A frame, from the outermost to the innermost."""
        traceback = self._of.get(prefix)
        if traceback is None or traceback.raised:
            self.begin(prefix, line)
            traceback = self._of[prefix]
        place = f"{file}:{number}"
        kept = traceback.newest_first
        traceback.last = traceback.last if kept and traceback.last else place
        traceback.line = line
        if not _LIBRARY.search(file) and not (kept and traceback.own):
            traceback.own = place

    def newest(self, prefix: str) -> str | None:
        """The frame to name of a traceback whose deepest frame comes first."""
        traceback = self._of.get(prefix)
        return traceback.frame if traceback and traceback.newest_first else None

    def forget_before(self, line: int) -> None:
        """An exception at `line` has ended whatever traceback was before it."""
        for prefix in [p for p, traceback in self._of.items() if traceback.line < line]:
            del self._of[prefix]

    def raised(self, prefix: str, line: int) -> tuple[str | None, bool]:
        """An exception ends the traceback: the frame to name, and whether it was ignored."""
        traceback = self._of.get(prefix)
        if traceback is None or traceback.raised or line - traceback.line > _REACH:
            self._of.pop(prefix, None)
            return None, False
        traceback.raised, traceback.line = True, line
        return traceback.frame, traceback.ignored

    def continued(self, prefix: str, line: int) -> str | None:
        """A further line of an exception's text has its frame."""
        traceback = self._of.get(prefix)
        if traceback is None or not traceback.raised or line - traceback.line > _REACH:
            return None
        return traceback.frame
