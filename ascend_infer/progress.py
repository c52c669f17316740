"""How long-running work says what it is doing; the command line shows it as a bar."""

from __future__ import annotations

from typing import Protocol


class Reporter(Protocol):
    """Told by long-running work what it is doing."""

    def stage(self, name: str, total: int | None = None) -> None:
        """A new stage begins; `total` units of work, None when unknown."""

    def step(self, done: int | None = None) -> None:
        """One more unit is done, or `done` in all."""


class Silent:
    """Says nothing."""

    def stage(self, name: str, total: int | None = None) -> None:
        """Ignored."""

    def step(self, done: int | None = None) -> None:
        """Ignored."""
