"""What one step computes: rows through the layers, keys read, and pairs of queries and keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kernels_npu.errors import UsageError

#: No step comes near so many rows or tokens; a larger number is a mistake.
_LARGEST = 10**12


def require_count(name: str, value: object, smallest: int = 1) -> int:
    """The number, if it can be meant.

    Raises:
        UsageError: AI-EST-001.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not smallest <= value <= _LARGEST:
        raise UsageError(
            "AI-EST-001",
            f"{name} is {str(value)[:40]}",
            rule=f"{name} is a whole number from {smallest} to {_LARGEST:,}",
            fix=f"correct {name}",
        )
    return value


def require_finite(name: str, value: float, smallest: float = 0) -> float:
    """The number, if it is finite and at least `smallest`.

    Raises:
        UsageError: AI-EST-001.
    """
    if not smallest <= value <= 1000 * _LARGEST:  # so written, not-a-number is outside as well
        raise UsageError(
            "AI-EST-001",
            f"{name} is {value}",
            rule=f"{name} is a number from {smallest:g} to {1000.0 * _LARGEST:g}",
            fix=f"correct {name}",
        )
    return value


@dataclass(frozen=True, kw_only=True)
class Sequence:
    """New tokens of a sequence that has `past` tokens in the cache already."""

    tokens: int
    past: int = 0

    def keys_read(self, window: int) -> int:
        """Tokens whose keys and values the step needs at least once; window 0 is all."""
        past = min(self.past, window - 1) if window else self.past
        return past + self.tokens

    def pairs(self, window: int) -> int:
        """Pairs of a query and a key that it sees, itself included."""
        tokens, past = self.tokens, self.past
        growing = tokens if not window else min(tokens, max(window - past, 0))
        return growing * past + growing * (growing + 1) // 2 + (tokens - growing) * window


@dataclass(frozen=True, kw_only=True)
class Work:
    """A step: `groups` counts equal sequences.

    logits: rows of which the output projection is computed, one per sequence.
    """

    groups: Mapping[Sequence, int] = field(default_factory=dict)

    @classmethod
    def decode(cls, contexts: Iterable[int]) -> Work:
        """One token per sequence; each context counts that token and all before it.

        Raises:
            UsageError: AI-EST-001 for a context below 1.
        """
        counted = Counter(contexts)
        for context in counted:
            require_count("context", context)
        return cls(groups={Sequence(tokens=1, past=c - 1): n for c, n in counted.items()})

    @classmethod
    def batch(cls, batch: int, context: int) -> Work:
        """A decode step of `batch` sequences of `context` tokens each.

        Raises:
            UsageError: AI-EST-001.
        """
        sequence = Sequence(tokens=1, past=require_count("context", context) - 1)
        return cls(groups={sequence: require_count("batch", batch)})

    @classmethod
    def prefill(cls, tokens: int, past: int = 0, batch: int = 1) -> Work:
        """`tokens` of a prompt at once, `past` of which are in the cache already.

        Raises:
            UsageError: AI-EST-001.
        """
        sequence = Sequence(
            tokens=require_count("tokens", tokens), past=require_count("past", past, 0)
        )
        return cls(groups={sequence: require_count("batch", batch)})

    def __add__(self, other: Work) -> Work:
        """Both in one step, as chunked prefill does."""
        return Work(groups=Counter(self.groups) + Counter(other.groups))

    @property
    def sequences(self) -> int:
        return sum(self.groups.values())

    @property
    def rows(self) -> int:
        """Tokens that go through the layers."""
        return sum(sequence.tokens * count for sequence, count in self.groups.items())

    @property
    def prefill_rows(self) -> int:
        """Those of sequences with more than one token."""
        return sum(s.tokens * count for s, count in self.groups.items() if s.tokens > 1)

    def keys_read(self, window: int, prefill_window: int | None = None) -> int:
        """Tokens whose keys are read; prompts by `prefill_window`, where that is another one."""
        windows = (window, window if prefill_window is None else prefill_window)
        return sum(s.keys_read(windows[s.tokens > 1]) * n for s, n in self.groups.items())

    def pairs(self, window: int, *, prefill: bool) -> int:
        """Pairs of queries and keys in prefill, or in decode."""
        return sum(
            sequence.pairs(window) * n
            for sequence, n in self.groups.items()
            if (sequence.tokens > 1) == prefill
        )
