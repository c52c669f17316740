"""A Chrome trace: spans on named tracks."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from kernels_npu.evidence import Evidence


@dataclass(frozen=True, kw_only=True)
class Span:
    """One event with a duration, in the trace's unit.

    category: as the trace has it; empty where it has none.
    """

    name: str
    process: str
    track: str
    start: Decimal
    duration: Decimal
    category: str = ""

    @property
    def end(self) -> Decimal:
        """Where it ends."""
        return self.start + self.duration


@dataclass(frozen=True, kw_only=True)
class Trace:
    """A trace file.

    Args:
        file: as messages show it.
        spans: its complete events, in the order of the file.
        others: how many events have no duration: flows, counters, instants.
        evidence: simulated pipelines are modelled.
        unit: of starts and durations: `us`, or `cycles` of a model.
    """

    file: str
    spans: tuple[Span, ...]
    others: int
    evidence: Evidence
    unit: str = "us"
