"""The findings of one verification, each with its place, the most telling first."""

from __future__ import annotations

from dataclasses import dataclass

from graphs.compare import Mismatch
from graphs.report import Finding
from graphs.report_parts import LayerVerdict

# Most telling first: a replay that does nothing also differs from eager, and should not be
# reported as "differs". Codes that are not listed come in between, in the order found.
_TELLING = (
    "AI-GRAPH-006",
    "AI-VERIFY-004",
    "AI-VERIFY-012",
    "AI-VERIFY-013",
    "AI-VERIFY-015",
    "AI-VERIFY-005",
    "AI-VERIFY-006",
)
_GENERAL = ("AI-VERIFY-007", "AI-VERIFY-008")


@dataclass(frozen=True, kw_only=True)
class Where:
    """The step in question; see `graphs.report.Finding`."""

    check: str
    bucket: int
    batch_size: int
    round: int = 0


class Findings:
    """Collects findings."""

    def __init__(self) -> None:
        self._found: list[Finding] = []

    def add(
        self,
        code: str,
        where: Where,
        message: str,
        mismatch: Mismatch | None = None,
        layer: LayerVerdict | None = None,
    ) -> None:
        """Note one."""
        self._found.append(
            Finding(
                code=code,
                check=where.check,
                message=message,
                round=where.round,
                bucket=where.bucket,
                batch_size=where.batch_size,
                mismatch=mismatch,
                layer=layer,
            )
        )

    def add_once(self, code: str, where: Where, message: str) -> None:
        """Note one unless this bucket has a finding of that code."""
        if not any(f.code == code and f.bucket == where.bucket for f in self._found):
            self.add(code, where, message)

    def ranked(self) -> tuple[Finding, ...]:
        """All of them, the most telling first."""
        return tuple(sorted(self._found, key=_rank))


def _rank(finding: Finding) -> int:
    if finding.code in _TELLING:
        return _TELLING.index(finding.code)
    return len(_TELLING) + (finding.code in _GENERAL)
