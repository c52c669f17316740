"""What the checks report: findings in msSanitizer's words, grouped to one per mistake."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace

from kernels_npu.errors import SimulationError, SourceLocation

ERROR, WARNING, HINT = "error", "warning", "hint"


@dataclass(frozen=True, kw_only=True)
class Access:
    """One side of a hazard.

    operation: the dialect's name, e.g. `copy`. kind: `Read` or `Write`. pipe: e.g. `PIPE_MTE2`.
    core: `aic`, `aiv0` or `aiv1`. memory: `GM`, `UB`, `L1`, ... start, stop: byte range in it (for
    GM relative to the tensor `tensor`).
    """

    operation: str
    kind: str
    pipe: str
    core: str
    block: int
    memory: str
    start: int
    stop: int
    loc: SourceLocation
    tensor: str = ""

    def __str__(self) -> str:
        place = f"{self.memory} of {self.tensor}" if self.tensor else self.memory
        return (
            f"PIPE_{self.pipe} {self.kind} of {place} bytes [{self.start:#x}, {self.stop:#x}) "
            f"in block {self.block} ({self.core}) by {self.operation} at {self.loc}"
        )


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One mistake; `count` says how often it was met.

    code: `AI-RACE-001` and so on. severity: error, warning or hint.
    accesses: both sides, older first.
    """

    code: str
    severity: str
    message: str
    kernel: str
    loc: SourceLocation | None = None
    accesses: tuple[Access, ...] = ()
    fix: str = ""
    count: int = 1

    def __str__(self) -> str:
        where = f" at {self.loc}" if self.loc is not None and not self.accesses else ""
        times = f" ({self.count} times)" if self.count > 1 else ""
        lines = [
            f"{self.severity.upper()} {self.code}: {self.message} in {self.kernel}{where}{times}"
        ]
        lines += [f"  {access}" for access in self.accesses]
        if self.fix:
            lines.append(f"  fix: {self.fix}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, object]:
        """JSON-ready fields."""
        return {
            "code": self.code,
            "severity": self.severity,
            "message": self.message,
            "kernel": self.kernel,
            "where": None if self.loc is None else str(self.loc),
            "accesses": [str(access) for access in self.accesses],
            "fix": self.fix,
            "count": self.count,
        }


@dataclass
class FindingLog:
    """Collects findings of one launch; those with the same key are counted, the first is kept."""

    kernel: str
    _found: dict[Hashable, Finding] = field(default_factory=dict)

    def add(self, key: Hashable, finding: Finding) -> None:
        """Record `finding`, or count it again under `key`."""
        seen = self._found.get(key)
        self._found[key] = finding if seen is None else replace(seen, count=seen.count + 1)

    def seen(self, key: Hashable) -> bool:
        """Whether `key` was recorded; if so it is counted once more (cheap path of a loop)."""
        finding = self._found.get(key)
        if finding is None:
            return False
        self._found[key] = replace(finding, count=finding.count + 1)
        return True

    def __iter__(self) -> Iterator[Finding]:
        return iter(self._found.values())

    def __len__(self) -> int:
        return len(self._found)

    def errors(self) -> tuple[Finding, ...]:
        """The findings that make a launch fail."""
        return tuple(f for f in self if f.severity == ERROR)


class HazardError(SimulationError):
    """A launch had error-level findings; `findings` holds all of them."""

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        first = next(f for f in findings if f.severity == ERROR)
        more = len(findings) - 1
        text = str(first).split(": ", 1)[1]
        suffix = f"\n  and {more} more finding{'s' if more > 1 else ''}" if more else ""
        super().__init__(first.code, text + suffix, where=first.loc)
        self.findings = findings
