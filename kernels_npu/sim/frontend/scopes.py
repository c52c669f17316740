"""Names of a kernel body: frames of bindings, innermost last."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from kernels_npu.sim.frontend.source import builtin

_MISSING = object()


class VarTable:
    """A name bound in a nested body is visible there and below, and nowhere else.

    Binding a name again makes a new binding in the innermost frame; the outer one is untouched.
    That is why a name cannot carry a value from one loop iteration to the next.
    """

    def __init__(self, captured: Mapping[str, Any], overrides: Mapping[str, Any]) -> None:
        self._captured = captured
        self._frames: list[dict[str, Any]] = [dict(overrides), {}]
        self._closed: dict[str, int] = {}
        #: positions of the frames that are the bodies of loops
        self._loops: list[int] = []

    @contextlib.contextmanager
    def frame(self, *, loop: bool = False) -> Iterator[None]:
        """A nested body; `loop`: of a loop."""
        if loop:
            self._loops.append(len(self._frames))
        self._frames.append({})
        try:
            yield
        finally:
            if loop:
                self._loops.pop()
            for name in self._frames.pop():
                self._closed[name] = self._closed.get(name, 0) + 1

    def bind(self, name: str, value: Any) -> None:
        """Bind `name` in the innermost frame."""
        self._frames[-1][name] = value

    def bound(self, name: str) -> Any:
        """The kernel's own binding of `name`, or None when it has none."""
        for frame in reversed(self._frames):
            if name in frame:
                return frame[name]
        return None

    def is_from_outside_loop(self, name: str) -> bool:
        """Whether `name` has a value from outside the innermost loop, and none within."""
        start = self._loops[-1] if self._loops else len(self._frames)
        inside = any(name in frame for frame in self._frames[start:])
        return bool(self._loops) and not inside and self.bound(name) is not None

    def lookup(self, name: str) -> Any:
        """The value of `name`: a binding, else a captured name, else a builtin.

        Raises:
            KeyError: when there is none.
        """
        for frame in reversed(self._frames):
            if name in frame:
                return frame[name]
        value = self._captured.get(name, _MISSING)
        return builtin(name) if value is _MISSING else value

    def left_scope(self, name: str) -> bool:
        """Whether `name` was bound in a nested body that has ended."""
        return name in self._closed

    def merged(self) -> dict[str, Any]:
        """All visible names as one dict, for code that only Python can evaluate (comprehensions).

        What the dialect overrides (`range`) has Python's meaning there.
        """
        names = dict(self._captured)
        for frame in self._frames[1:]:
            names.update(frame)
        return names

    def names(self) -> list[str]:
        """The names bound by the kernel, for suggestions."""
        return [name for frame in self._frames for name in frame]
