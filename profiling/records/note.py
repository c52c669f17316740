"""What was wrong with a file, as data: nothing that can still be read is lost over it."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from kernels_npu.errors import SourceLocation


class Severity(str, enum.Enum):
    """Whether figures are missing because of it."""

    WARNING = "warning"
    DAMAGE = "damage"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, kw_only=True)
class Note:
    """One kind of trouble in one file.

    Args:
        code: of `kernels_npu.error_codes`.
        what: what was found, with the values.
        where: the file, and its line where there is one.
        rule: what such a file has.
        fix: one concrete thing to do.
        severity: DAMAGE when figures were lost.
        count: how often; `what` and `where` are of the first.
    """

    code: str
    what: str
    where: SourceLocation | str
    rule: str
    fix: str
    severity: Severity = Severity.WARNING
    count: int = 1

    def __str__(self) -> str:
        more = f" (and {self.count - 1:,} more)" if self.count > 1 else ""
        return (
            f"{self.code}: {self.what}{more}\n  at {self.where}\n  rule: {self.rule}"
            f"\n  fix: {self.fix}"
        )

    def to_dict(self) -> dict[str, str | int]:
        """The note as JSON-ready fields."""
        return {
            "code": self.code,
            "severity": str(self.severity),
            "what": self.what,
            "where": str(self.where),
            "rule": self.rule,
            "fix": self.fix,
            "count": self.count,
        }


class Notes:
    """Collects notes; trouble that repeats in a file becomes one note with a count."""

    def __init__(self) -> None:
        self._notes: dict[tuple[str, str, str], Note] = {}

    def add(self, note: Note, *, repeats: str = "") -> None:
        """Keep `note`; notes of one file, code and `repeats` are one."""
        file = note.where.file if isinstance(note.where, SourceLocation) else note.where
        key = (file, note.code, repeats)
        earlier = self._notes.get(key)
        self._notes[key] = (
            note if earlier is None else replace(earlier, count=earlier.count + note.count)
        )

    def all(self) -> tuple[Note, ...]:
        """All notes, in the order in which they first came up."""
        return tuple(self._notes.values())
