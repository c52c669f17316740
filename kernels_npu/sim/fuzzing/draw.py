"""Where a generator's decisions come from."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol, TypeVar

Option = TypeVar("Option")


class Draw(Protocol):
    """A source of decisions. The first option is the simplest one."""

    def integer(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both included."""

    def choice(self, options: Sequence[Option]) -> Option:
        """One of `options`."""


class RandomDraw:
    """Decisions of a random generator."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def integer(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both included."""
        return self._random.randint(low, high)

    def choice(self, options: Sequence[Option]) -> Option:
        """One of `options`."""
        return self._random.choice(options)
