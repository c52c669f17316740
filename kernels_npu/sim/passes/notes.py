"""What the passes report without stopping: coded notes with the user's line."""

from __future__ import annotations

from dataclasses import dataclass

from kernels_npu.errors import SourceLocation

SEVERITIES = ("error", "warning", "hint")


@dataclass(frozen=True, kw_only=True)
class Note:
    """One finding of a pass; `code` is a key of `error_codes.CODES`."""

    code: str
    severity: str
    message: str
    loc: SourceLocation

    def __post_init__(self) -> None:
        if self.severity not in SEVERITIES:
            raise ValueError(f"severity must be one of {SEVERITIES}, not {self.severity!r}")

    def __str__(self) -> str:
        return f"{self.code} {self.severity}: {self.message}\n  at {self.loc}"
