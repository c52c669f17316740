"""Parts of a verification's result: the differing layer, batch invariance, a soak."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graphs.compare import Mismatch, json_number


@dataclass(frozen=True, kw_only=True)
class LayerVerdict:
    """Where in the model eager and replay part, found by capturing prefixes of its layers.

    num_layers: of the whole step. layer: the layer whose addition makes the difference; -1 when the
    step without any layer (embedding and head) differs, None when no prefix differs by itself.
    captures: prefixes that were captured for it. mismatch: of the shortest prefix that differs.
    """

    num_layers: int
    layer: int | None
    captures: int
    mismatch: Mismatch | None = None

    def __str__(self) -> str:
        if self.layer is None:
            return (
                f"no prefix of the {self.num_layers} layers differs when it is captured alone: the "
                "fault is in the runner or between its graphs, not in a layer"
            )
        if self.layer < 0:
            return "the embedding or the head differ, without any layer"
        return (
            f"layer {self.layer} of {self.num_layers} is the first that differs "
            f"({self.captures} prefixes captured): {self.mismatch}"
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "num_layers": self.num_layers,
            "layer": self.layer,
            "captures": self.captures,
            "mismatch": None if self.mismatch is None else self.mismatch.to_dict(),
        }


@dataclass(frozen=True, kw_only=True)
class RowChange:
    """The same rows replayed in another company; bitwise when `mismatch` is None.

    change: what was different. rows: compared. differing: rows with other bits.
    other_choice: rows whose most likely token is another one.
    """

    change: str
    rows: int
    differing: int
    other_choice: int
    max_abs_diff: float
    mismatch: Mismatch | None

    def to_dict(self) -> dict[str, Any]:
        return {
            "change": self.change,
            "rows": self.rows,
            "differing": self.differing,
            "other_choice": self.other_choice,
            "max_abs_diff": json_number(self.max_abs_diff),
            "mismatch": None if self.mismatch is None else self.mismatch.to_dict(),
        }


@dataclass(frozen=True, kw_only=True)
class BucketInvariance:
    """Whether rows of one bucket depend on the batch they are in. A property, not a fault."""

    bucket: int
    changes: tuple[RowChange, ...]

    @property
    def invariant(self) -> bool:
        """Whether every row kept its bits under every change."""
        return not any(change.differing for change in self.changes)

    def __str__(self) -> str:
        broken = [
            f"{c.change} changes {c.differing} of {c.rows} rows (at most by {c.max_abs_diff:.3g}, "
            f"{c.other_choice} with another most likely token)"
            for c in self.changes
            if c.differing
        ]
        verdict = "; ".join(broken) or "rows keep their bits"
        return f"bucket {self.bucket}: {verdict}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "bucket": self.bucket,
            "invariant": self.invariant,
            "changes": [change.to_dict() for change in self.changes],
        }


@dataclass(frozen=True, kw_only=True)
class SoakFigures:
    """What many replays of the same steps left behind; growth is over the second half of them.

    replays: in all. drifted: whose logits differ from the bucket's first replay.
    device_bytes: growth of the device memory held by tensors; None where the device does not say.
    host_blocks: growth of the Python allocator's blocks. grown: type -> further objects, of those
        that grew with the replays.
    """

    replays: int
    drifted: int
    device_bytes: int | None
    host_blocks: int
    grown: Mapping[str, int]

    def __str__(self) -> str:
        device = "unknown" if self.device_bytes is None else f"{self.device_bytes:+,} bytes"
        return (
            f"{self.replays} replays: {self.drifted} drifted, device memory {device}, "
            f"host {self.host_blocks:+,} blocks over the second half"
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "replays": self.replays,
            "drifted": self.drifted,
            "device_bytes": self.device_bytes,
            "host_blocks": self.host_blocks,
            "grown": dict(self.grown),
        }
