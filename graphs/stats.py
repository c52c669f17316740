"""What a runner did: captures, replays per bucket, padding, and reasons for leaving the graph."""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass, field

from graphs.device_api import MemoryFigures
from graphs.preflight import PreflightFinding


class EagerReason(str, enum.Enum):
    """Why a step ran eagerly instead of by replay."""

    BATCH_TOO_LARGE = "batch larger than the largest bucket"
    CAPTURE_FAILED = "capture failed for this bucket"
    NO_GRAPHS = "device has no graphs"
    NOT_CAPTURED = "graphs are not captured"
    DISABLED = "graphs are disabled"

    def __str__(self) -> str:
        return self.value


@dataclass(kw_only=True)
class RunnerStats:
    """Counters of one runner since it was made; rows and steps, no times.

    captures: successful captures, recaptures included.
    replays: replays per bucket.
    rows, padded_rows: rows with and without a sequence, over all replays.
    eager: steps that did not use a graph, by reason.
    batch_sizes: steps per batch size, eager ones included: the histogram that
        `graphs.planning.plan_buckets` takes.
    capture_failures: bucket -> the first exception of its last capture, as text.
    preflight: what the last `capture()` found before recording, warnings included.
    memory_before, memory_after: device memory around the last `capture()`.
    """

    captures: int = 0
    replays: Counter[int] = field(default_factory=Counter)
    rows: int = 0
    padded_rows: int = 0
    eager: Counter[EagerReason] = field(default_factory=Counter)
    batch_sizes: Counter[int] = field(default_factory=Counter)
    capture_failures: dict[int, str] = field(default_factory=dict)
    preflight: tuple[PreflightFinding, ...] = ()
    memory_before: MemoryFigures = field(default_factory=MemoryFigures)
    memory_after: MemoryFigures = field(default_factory=MemoryFigures)

    def count_replay(self, bucket: int, rows: int) -> None:
        """One replay of `bucket` of which `rows` rows carry a sequence."""
        self.replays[bucket] += 1
        self.rows += rows
        self.padded_rows += bucket - rows
        self.batch_sizes[rows] += 1

    def count_eager(self, reason: EagerReason, rows: int) -> None:
        """One step of `rows` rows that did not use a graph."""
        self.eager[reason] += 1
        self.batch_sizes[rows] += 1

    @property
    def total_replays(self) -> int:
        return self.replays.total()

    @property
    def eager_steps(self) -> int:
        return self.eager.total()

    @property
    def captured_bytes(self) -> int | None:
        """What the last `capture()` added to torch's reserved memory; None if not known."""
        before, after = self.memory_before.reserved, self.memory_after.reserved
        return None if before is None or after is None else after - before

    def to_dict(self) -> dict[str, object]:
        """JSON-ready; keys of JSON objects are text."""
        return {
            "captures": self.captures,
            "replays": self.total_replays,
            "replays_by_bucket": {str(b): n for b, n in sorted(self.replays.items())},
            "rows": self.rows,
            "padded_rows": self.padded_rows,
            "eager_steps": self.eager_steps,
            "fallbacks": {reason.value: n for reason, n in self.eager.items()},
            "batch_sizes": {str(size): n for size, n in sorted(self.batch_sizes.items())},
            "capture_failures": {str(b): text for b, text in self.capture_failures.items()},
            "preflight": [finding.to_dict() for finding in self.preflight],
            "captured_bytes": self.captured_bytes,
        }
