"""How much happens on each track of a trace."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from decimal import Decimal

from kernels_npu.evidence import Evidence
from profiling.records.trace import Trace


@dataclass(frozen=True, kw_only=True)
class TrackTotal:
    """One track.

    Args:
        process, track: as the trace names them.
        spans: how many.
        total: of their durations; None in traces that show a model's result as time.
        unit: of the total: `us` or `cycles`.
        share: of the durations on all tracks.
    """

    process: str
    track: str
    spans: int
    total: float | None
    unit: str
    share: float


def track_totals(trace: Trace) -> list[TrackTotal]:
    """One total per track, the largest first."""
    durations: dict[tuple[str, str], list[Decimal]] = defaultdict(list)
    for span in trace.spans:
        durations[span.process, span.track].append(span.duration)
    sums = {track: sum(spans, Decimal(0)) for track, spans in durations.items()}
    whole = sum(sums.values())
    shown = trace.evidence is Evidence.NPU_MEASURED or trace.unit == "cycles"
    return [
        TrackTotal(
            process=process,
            track=track,
            spans=len(durations[process, track]),
            total=float(total) if shown else None,
            unit=trace.unit,
            share=float(total / whole) if whole else 0.0,
        )
        for (process, track), total in sorted(sums.items(), key=lambda item: -item[1])
    ]
