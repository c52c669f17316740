"""What the checks report: findings in msSanitizer's words, grouped to one per mistake."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace

from kernels_npu.errors import SimulationError, SourceLocation
from kernels_npu.sim.machine.rules import rule_of

ERROR, WARNING, HINT = "error", "warning", "hint"


def _place(loc: SourceLocation | None) -> dict[str, object]:
    return {"file": None, "line": None} if loc is None else {"file": loc.file, "line": loc.line}


@dataclass(frozen=True, kw_only=True)
class Access:
    """One side of a hazard.

    operation: the dialect's name, e.g. `copy`. kind: `Read` or `Write`. pipe: e.g. `MTE2`.
    core: `aic`, `aiv0` or `aiv1`. memory: `GM`, `UB`, `L1`, ... tensor: the tensor or buffer in it.
    start, stop: byte range, for GM relative to the tensor, on chip from the memory's start.
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

    def to_dict(self) -> dict[str, object]:
        """JSON-ready fields."""
        return {
            "kind": self.kind.lower(),
            "memory": self.memory,
            "tensor": self.tensor,
            "start": self.start,
            "stop": self.stop,
            "block": self.block,
            "core": self.core,
            "pipe": self.pipe,
            "operation": self.operation,
            **_place(self.loc),
        }


@dataclass(frozen=True, kw_only=True)
class Insertion:
    """A line to add `before` or `after` (`where`) the whole statement that starts at `loc`."""

    loc: SourceLocation
    where: str
    code: str

    def __str__(self) -> str:
        return f"{self.code} {self.where} {self.loc}"

    def to_dict(self) -> dict[str, object]:
        """JSON-ready fields."""
        return {**_place(self.loc), "where": self.where, "code": self.code}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One mistake; `count` says how often it was met.

    code: `AI-RACE-001` and so on. severity: error, warning or hint. accesses: both sides, older
    first. details: further lines of the message. rule, fix: by default those of `rules.RULES`.
    insertions: the fix as lines of source, where it consists of such.
    """

    code: str
    severity: str
    message: str
    kernel: str
    loc: SourceLocation | None = None
    accesses: tuple[Access, ...] = ()
    details: tuple[str, ...] = ()
    rule: str = ""
    fix: str = ""
    insertions: tuple[Insertion, ...] = ()
    count: int = 1

    def __post_init__(self) -> None:
        known = rule_of(self.code)
        for name in ("rule", "fix"):
            if not getattr(self, name):
                object.__setattr__(self, name, getattr(known, name))

    @property
    def check(self) -> str:
        """The switch in `Checks` that controls the finding, or `always`."""
        return rule_of(self.code).check

    @property
    def identity(self) -> tuple[str, ...]:
        """Equal for findings of the same kind about the same lines."""
        return self.code, str(self.loc), *(str(access.loc) for access in self.accesses)

    @property
    def title(self) -> str:
        """The first line: severity, code, what, where and how often."""
        where = f" at {self.loc}" if self.loc is not None and not self.accesses else ""
        told = f"{self.message} in {self.kernel}{where}{self.times}"
        return f"{self.severity.upper()} {self.code}: {told}"

    @property
    def times(self) -> str:
        """How often the mistake was met, when that is more than once."""
        return f" ({self.count:,} times)" if self.count > 1 else ""

    @property
    def body(self) -> tuple[str, ...]:
        """The lines below the title."""
        told = (*map(str, self.accesses), *self.details)
        return (*told, f"rule: {self.rule}", f"fix: {self.fix}")

    def __str__(self) -> str:
        return "\n".join((self.title, *(f"  {line}" for line in self.body)))

    def to_dict(self) -> dict[str, object]:
        """JSON-ready fields."""
        return {
            "code": self.code,
            "severity": self.severity,
            "check": self.check,
            "message": self.message,
            "details": list(self.details),
            "kernel": self.kernel,
            **_place(self.loc),
            "accesses": [access.to_dict() for access in self.accesses],
            "rule": self.rule,
            "fix": self.fix,
            "insertions": [insertion.to_dict() for insertion in self.insertions],
            "count": self.count,
        }


@dataclass
class FindingLog:
    """Collects findings of one launch; those with the same key are counted, the first is kept."""

    kernel: str
    _found: dict[Hashable, Finding] = field(default_factory=dict)
    _counts: dict[Hashable, int] = field(default_factory=dict)

    def add(self, key: Hashable, finding: Finding) -> None:
        """Record `finding`, or count it again under `key`."""
        if not self.seen(key):
            self._found[key] = finding
            self._counts[key] = finding.count

    def seen(self, key: Hashable) -> bool:
        """Whether `key` was recorded; if so it is counted once more (cheap path of a loop)."""
        if key not in self._counts:
            return False
        self._counts[key] += 1
        return True

    def __iter__(self) -> Iterator[Finding]:
        for key, finding in self._found.items():
            count = self._counts[key]
            yield finding if count == finding.count else replace(finding, count=count)

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
        lines = [f"{first.message} in {first.kernel}{first.times}"]
        lines += [f"  {line}" for line in (*map(str, first.accesses), *first.details)]
        if more:
            lines.append(f"  and {more} more finding{'s' if more > 1 else ''}")
        super().__init__(
            first.code, "\n".join(lines), where=first.loc, rule=first.rule, fix=first.fix
        )
        self.findings = findings
