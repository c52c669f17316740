"""The result of one check, alike for operators, blocks and models."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kernels_npu.evidence import Evidence


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """The result of one check.

    subject: what was checked; check: against what; detail: figures, or what went wrong;
    values: the same figures for JSON.
    """

    subject: str
    check: str
    passed: bool
    detail: str
    evidence: Evidence
    values: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready fields."""
        return {
            "subject": self.subject,
            "check": self.check,
            "passed": self.passed,
            "detail": self.detail,
            "evidence": str(self.evidence),
            **self.values,
        }


@dataclass(frozen=True, kw_only=True)
class CheckReport:
    """All results of one command. notes: what was left out, and why."""

    scope: str
    device: str
    results: tuple[CheckResult, ...]
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether something was checked and nothing failed."""
        return bool(self.results) and all(result.passed for result in self.results)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready fields."""
        return {
            "scope": self.scope,
            "device": self.device,
            "passed": self.passed,
            "results": [result.to_dict() for result in self.results],
            "notes": list(self.notes),
        }
