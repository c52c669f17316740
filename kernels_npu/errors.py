"""Coded errors: what happened with both sides' values, where, the rule, and one concrete fix.

Every code that the toolkit can raise is listed in `error_codes.CODES`; `docs/errors.md` is
generated from it and a test refuses a code that is raised but not listed.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SourceLocation:
    """A line of the user's file; `file` is a path as Python reported it, `line` starts at 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class AscendInferError(Exception):
    """Base of all errors raised on purpose.

    Args:
        code: stable identifier such as `AI-SYNC-003`; must be a key of `error_codes.CODES`.
        what: what happened, with the values of both sides.
        where: the user's source line, when one is known.
        rule: the rule that was broken, in one sentence.
        fix: one concrete thing to do.
    """

    def __init__(
        self,
        code: str,
        what: str,
        *,
        where: SourceLocation | str | None = None,
        rule: str | None = None,
        fix: str | None = None,
    ) -> None:
        self.code = code
        self.what = what
        self.where = where
        self.rule = rule
        self.fix = fix
        super().__init__(code, what)

    def __str__(self) -> str:
        lines = [f"{self.code}: {self.what}"]
        if self.where is not None:
            lines.append(f"  at {self.where}")
        if self.rule is not None:
            lines.append(f"  rule: {self.rule}")
        if self.fix is not None:
            lines.append(f"  fix: {self.fix}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, str | None]:
        """The error as JSON-ready fields."""
        return {
            "code": self.code,
            "what": self.what,
            "where": None if self.where is None else str(self.where),
            "rule": self.rule,
            "fix": self.fix,
        }


class UsageError(AscendInferError):
    """The caller's arguments are wrong; the command line exits with 2."""


class KernelSourceError(AscendInferError, ValueError):
    """A kernel's source is not valid in the dialect; found before anything runs.

    A ValueError as well: that is what the dialect's own checks of arguments raise.
    """


class UnsupportedError(AscendInferError):
    """A valid request that no implementation here can serve."""


class EnvironmentProblem(AscendInferError):
    """The installation or host lacks something, or combines things that do not work together."""


class SimulationError(AscendInferError):
    """The simulated NPU found a fault while executing a kernel."""
