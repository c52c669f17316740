"""Evidence of graphs in the runtime's own lines: captured, replayed, on which streams."""

from __future__ import annotations

from dataclasses import dataclass, field

from graphs.runtime_log import CAPTURE_BEGUN, CAPTURE_ENDED, CAPTURE_STREAM, EXECUTED

#: Distinct ids that are kept; a device has far fewer, a damaged log may not.
_MOST_IDS = 65536


@dataclass(kw_only=True)
class CaptureEvidence:
    """Counts of the runtime's lines about capture; streams are (device, stream)."""

    begun: int = 0
    ended: int = 0
    executed: int = 0
    model_ids: set[int] = field(default_factory=set)
    streams: set[tuple[int, int]] = field(default_factory=set)

    def add(self, line: bytes) -> bool:
        """Count a line; whether it was about capture."""
        if found := EXECUTED.search(line):
            self.executed += 1
        elif found := CAPTURE_ENDED.search(line):
            self.ended += 1
        elif found := CAPTURE_BEGUN.search(line):
            self.begun += 1
        else:
            return False
        if len(self.model_ids) < _MOST_IDS:
            self.model_ids.add(int(found[1][:20]))
        stream = CAPTURE_STREAM.search(line)
        if stream and len(self.streams) < _MOST_IDS:
            self.streams.add((int(stream[1][:20]), int(stream[2][:20])))
        return True

    def merge(self, other: CaptureEvidence) -> None:
        """Add what another part of the logs shows."""
        self.begun += other.begun
        self.ended += other.ended
        self.executed += other.executed
        if len(self.model_ids) < _MOST_IDS:
            self.model_ids |= other.model_ids
        if len(self.streams) < _MOST_IDS:
            self.streams |= other.streams

    def to_dict(self) -> dict[str, object]:
        """As JSON."""
        return {
            "begun": self.begun,
            "ended": self.ended,
            "executed": self.executed,
            "model_ids": sorted(self.model_ids),
            "streams": [f"{device}:{stream}" for device, stream in sorted(self.streams)],
        }
