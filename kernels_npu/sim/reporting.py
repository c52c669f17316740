"""`SimReport`: what the launches inside a `collect_report` block did, and what was found."""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kernels_npu.sim.machine import Finding, LaunchRecord
    from kernels_npu.sim.machine.kept_memory import CoreMemory


@dataclass
class KernelTotals:
    """Sums over the launches of one kernel; bytes and instructions simulated, cycles modelled.

    critical_path: modelled cycles from first to last instruction, of the launches that were traced.
    """

    launches: int = 0
    blocks: int = 0
    gm_read: dict[str, int] = field(default_factory=dict)
    gm_written: dict[str, int] = field(default_factory=dict)
    gm_paths: dict[str, int] = field(default_factory=dict)
    instructions: dict[str, int] = field(default_factory=dict)
    cycles: dict[str, int] = field(default_factory=dict)
    critical_path: int = 0

    def add(self, record: LaunchRecord) -> None:
        """Count one launch."""
        self.launches += 1
        self.blocks += record.blocks
        self.critical_path += record.critical_path or 0
        counters = record.counters
        for total, part in (
            (self.gm_read, counters.gm_read),
            (self.gm_written, counters.gm_written),
            (self.gm_paths, counters.gm_paths),
            (self.instructions, counters.instructions),
            (self.cycles, counters.cycles),
        ):
            _accumulate(total, part)


def _accumulate(total: dict[str, int], part: Mapping[str, int]) -> None:
    for key, value in part.items():
        total[key] = total.get(key, 0) + value


#: Version of `SimReport.to_dict`; it grows when a field changes its name or meaning.
SCHEMA_VERSION = 1


class SimReport:
    """Totals per kernel and findings, equal ones counted once with their number."""

    def __init__(self) -> None:
        self.kernels: dict[str, KernelTotals] = {}
        #: on-chip buffers after the latest launch of each kernel, with `keep_memory`
        self.memory: dict[str, tuple[CoreMemory, ...]] = {}
        self._findings: dict[tuple[str, str, str], Finding] = {}
        self._lock = threading.Lock()

    def add(self, record: LaunchRecord) -> None:
        """Count one launch."""
        with self._lock:
            self.kernels.setdefault(record.kernel, KernelTotals()).add(record)
            if record.memory:
                self.memory[record.kernel] = record.memory
            for finding in record.findings:
                places = ", ".join(str(a.loc) for a in finding.accesses) or str(finding.loc)
                # A message without a place of its own is told apart by its text.
                key = (
                    finding.code,
                    finding.kernel,
                    places if places != "None" else finding.message,
                )
                seen = self._findings.get(key)
                count = finding.count + (seen.count if seen else 0)
                self._findings[key] = replace(seen or finding, count=count)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, in the order they were first met."""
        return tuple(self._findings.values())

    @property
    def failed(self) -> bool:
        """Whether any finding is an error."""
        return any(f.severity == "error" for f in self.findings)

    def count(self, severity: str) -> int:
        """How many findings (not occurrences) are of `severity`: error, warning or hint."""
        return sum(f.severity == severity for f in self.findings)

    def to_dict(self) -> dict[str, object]:
        """JSON-ready form, with evidence levels."""
        from kernels_npu.evidence import Evidence
        from kernels_npu.sim.machine.cost import MODEL

        return {
            "schema_version": SCHEMA_VERSION,
            "kernels": {name: vars(totals) for name, totals in self.kernels.items()},
            "findings": [f.to_dict() for f in self.findings],
            "cycle_model": MODEL,
            "evidence": {"bytes": str(Evidence.SIMULATED), "cycles": str(Evidence.MODELLED)},
        }


class Sink(Protocol):
    """What finished launches are handed to."""

    def add(self, record: LaunchRecord) -> None:
        """Take one launch."""


#: Of all threads, but for those inside `trial_launches`.
_everywhere: list[Sink] = []
_sinks: contextvars.ContextVar[list[Sink]] = contextvars.ContextVar("sinks", default=_everywhere)


@contextlib.contextmanager
def collect_into(sink: Sink) -> Iterator[None]:
    """Hand the launches of all threads to `sink` while the block runs."""
    sinks = _sinks.get()
    sinks.append(sink)
    try:
        yield
    finally:
        sinks.remove(sink)


@contextlib.contextmanager
def collect_report() -> Iterator[SimReport]:
    """Collect the launches of all threads while the block runs."""
    report = SimReport()
    with collect_into(report):
        yield report


class TrialLaunches:
    """Launches that may turn out not to count; `accept` hands them to the reports."""

    def __init__(self) -> None:
        self.records: list[LaunchRecord] = []

    def add(self, record: LaunchRecord) -> None:
        """Keep one launch."""
        self.records.append(record)

    def accept(self) -> None:
        """Report them after all."""
        for record in self.records:
            record_launch(record)


@contextlib.contextmanager
def trial_launches() -> Iterator[TrialLaunches]:
    """Keep the launches of this thread out of reports that were begun before the block."""
    kept = TrialLaunches()
    token = _sinks.set([kept])
    try:
        yield kept
    finally:
        _sinks.reset(token)


def record_launch(record: LaunchRecord) -> None:
    """Hand a finished launch to the reports that are being collected."""
    for sink in _sinks.get():
        sink.add(record)
