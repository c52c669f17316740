"""Which frame of a Python traceback to name: the user's own, and only of the error's traceback."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

#: Lines between the last frame and the exception, and between the exception and its further text.
_REACH = 40
#: Processes that write into one log at once.
_MOST_PREFIXES = 256
_LIBRARY = re.compile(
    r"(?:^|/)(?:site-packages|dist-packages|lib/python[\d.]+|torch|torch_npu)/|^<"
)


@dataclass(kw_only=True)
class _Traceback:
    """`own`: the deepest frame of the user; `last`: the deepest of all. raised: it has ended."""

    own: str | None = None
    last: str | None = None
    line: int = 0
    raised: bool = False

    @property
    def frame(self) -> str | None:
        return self.own or self.last


@dataclass(kw_only=True)
class Tracebacks:
    """The traceback that each writer of a log is at, by what it puts before its lines."""

    _of: dict[str, _Traceback] = field(default_factory=dict)

    def begin(self, prefix: str, line: int) -> None:
        """A traceback starts."""
        if len(self._of) >= _MOST_PREFIXES:
            self._of.clear()
        self._of[prefix] = _Traceback(line=line)

    def frame(self, prefix: str, file: str, number: int, line: int) -> None:
        """A frame, from the outermost to the innermost."""
        traceback = self._of.get(prefix)
        if traceback is None or traceback.raised:
            self.begin(prefix, line)
            traceback = self._of[prefix]
        traceback.last = f"{file}:{number}"
        traceback.line = line
        if not _LIBRARY.search(file):
            traceback.own = traceback.last

    def forget_before(self, line: int) -> None:
        """An exception at `line` has ended whatever traceback was before it."""
        for prefix in [p for p, traceback in self._of.items() if traceback.line < line]:
            del self._of[prefix]

    def raised(self, prefix: str, line: int) -> str | None:
        """An exception ends the traceback: the frame to name."""
        traceback = self._of.get(prefix)
        if traceback is None or traceback.raised or line - traceback.line > _REACH:
            self._of.pop(prefix, None)
            return None
        traceback.raised, traceback.line = True, line
        return traceback.frame

    def continued(self, prefix: str, line: int) -> str | None:
        """A further line of an exception's text has its frame."""
        traceback = self._of.get(prefix)
        if traceback is None or not traceback.raised or line - traceback.line > _REACH:
            return None
        return traceback.frame
