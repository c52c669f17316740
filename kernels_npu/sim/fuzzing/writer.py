"""Lines of a kernel's text with their indentation."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence


class Writer:
    """Collects lines; `block` indents what is written inside it."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0

    def __call__(self, text: str) -> None:
        """Add the lines of `text`."""
        self._lines += ["    " * self._depth + line for line in text.splitlines()]

    @contextlib.contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Add a line that opens a block, whose body is written meanwhile."""
        self(header)
        self._depth += 1
        yield
        self._depth -= 1

    @contextlib.contextmanager
    def blocks(self, headers: Sequence[str]) -> Iterator[None]:
        """Blocks inside each other."""
        with contextlib.ExitStack() as stack:
            for header in headers:
                stack.enter_context(self.block(header))
            yield

    @property
    def text(self) -> str:
        """Everything written so far."""
        return "\n".join(self._lines) + "\n"
