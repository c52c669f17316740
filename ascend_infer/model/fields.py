"""Checked reading of a model's configuration: every missing or absurd value is a coded error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernels_npu.errors import UsageError

#: No dimension of a real decoder comes near this; a larger value is a corrupt file.
_LARGEST_DIMENSION = 2**31 - 1
#: Nor does a base or factor come near this; computing with larger ones overflows float32.
_LARGEST_NUMBER = 1e30


@dataclass(frozen=True, kw_only=True)
class Fields:
    """Typed access to the keys of a `config.json` (or its equivalent); `origin` names the file."""

    values: Mapping[str, Any]
    origin: str

    def get(self, key: str) -> Any:
        """The value of `key`, or None when it is absent or null."""
        return self.values.get(key)

    def missing(self, key: str) -> UsageError:
        """The error for a required `key` that is absent."""
        return UsageError(
            "AI-MODEL-001",
            f"{self.origin} has no value for {key!r}",
            rule="a decoder configuration states every dimension that cannot be derived",
            fix=f"add {key!r} to {self.origin}, or download the model's original config.json again",
        )

    def absurd(self, key: str, expected: str) -> UsageError:
        """The error for a `key` whose value cannot be meant."""
        return UsageError(
            "AI-MODEL-002",
            f"{self.origin}: {key!r} is {_short(self.get(key))}, expected {expected}",
            fix=f"correct {key!r} in {self.origin}",
        )

    def positive_int(self, key: str, default: int | None = None) -> int:
        """A dimension or count: an int from 1 up to 2**31 - 1."""
        value = self.get(key)
        if value is None:
            if default is None:
                raise self.missing(key)
            return default
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.absurd(key, "a whole number")
        if not 1 <= value <= _LARGEST_DIMENSION:
            raise self.absurd(key, f"a whole number from 1 to {_LARGEST_DIMENSION}")
        return value

    def positive_float(self, key: str, default: float | None = None) -> float:
        """A finite number above zero."""
        value = self.get(key)
        if value is None:
            if default is None:
                raise self.missing(key)
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.absurd(key, "a number")
        if not 0 < value <= _LARGEST_NUMBER:  # so written, not-a-number is outside as well
            raise self.absurd(key, f"a number above zero and up to {_LARGEST_NUMBER:g}")
        return float(value)

    def boolean(self, key: str, default: bool) -> bool:
        """A JSON boolean."""
        value = self.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.absurd(key, "true or false")
        return value

    def mapping(self, key: str) -> Mapping[str, Any] | None:
        """A nested JSON object, or None when absent."""
        value = self.get(key)
        if value is not None and not isinstance(value, Mapping):
            raise self.absurd(key, "an object")
        return value

    def token_ids(self, key: str, vocab_size: int) -> tuple[int, ...]:
        """A token id or a list of them; absent means none. Each must be below `vocab_size`."""
        value = self.get(key)
        if value is None:
            return ()
        ids = tuple(value) if isinstance(value, (list, tuple)) else (value,)
        for token in ids:
            if isinstance(token, bool) or not isinstance(token, int):
                raise self.absurd(key, "a token id or a list of token ids")
            if not 0 <= token < vocab_size:
                raise self.absurd(key, f"token ids from 0 to {vocab_size - 1}")
        return ids


def _short(value: object) -> str:
    """The value as written, unless that fills the screen (or is refused, for whole numbers)."""
    if isinstance(value, int) and abs(value) > 10**30:
        return "a whole number of more than 30 digits"
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
