"""A statement about a profile, with the figures that it rests on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from profiling.records.table import Figure


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """One statement.

    Args:
        topic: what it is about: `bound`, `balance`, ...
        text: the statement, with its numbers.
        rule: how it follows from the figures.
        refs: the figures; never empty.
        flagged: whether it asks for something to be changed.
    """

    topic: str
    text: str
    rule: str
    refs: tuple[Figure, ...]
    flagged: bool = False

    def __post_init__(self) -> None:
        if not self.refs:
            raise ValueError(f"a sentence without figures: {self.text}")

    def __str__(self) -> str:
        cited = "; ".join(
            f"{r.key} {r.value} {r.unit}".rstrip() + f" ({r.where})" for r in self.refs
        )
        return f"{self.topic}: {self.text}\n  rule: {self.rule}\n  from: {cited}"

    def to_dict(self) -> dict[str, Any]:
        """The sentence as JSON-ready fields."""
        return {
            "topic": self.topic,
            "text": self.text,
            "rule": self.rule,
            "flagged": self.flagged,
            "refs": [figure.to_dict() for figure in self.refs],
        }
