"""The bound of a step: each operator takes at least its compute or its memory time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ascend_infer.estimates.formats import Precision
from ascend_infer.estimates.models import Decoder, Parallel
from ascend_infer.estimates.operators import Kind, Operator, operators
from ascend_infer.estimates.roof import Roof
from ascend_infer.estimates.work import Work, require_count

FORMULA = "sum over operators of max(FLOP / peak of the dtype, bytes / memory bandwidth)"
ASSUMPTIONS = (
    "a lower bound: operators run one after another, at the device's full rate, and nothing else",
    "each operator reads its inputs and writes its outputs once; weights are read once per step",
    "of routed experts those are read that a row visits when routing is even",
    "the embedding is a lookup; the output projection is read for the last token of a sequence",
    "launches, host time, communication between ranks and sampling are not counted",
)


@dataclass(frozen=True, kw_only=True)
class StepLine:
    """One operator over all its launches. seconds: its bound, by `bound`.

    metadata_bytes: what of `weight_bytes` is scales and zero points.
    """

    name: str
    kind: Kind
    launches: int
    flops: float
    weight_bytes: float
    metadata_bytes: float
    kv_bytes: float
    activation_bytes: float
    seconds: float
    bound: Literal["compute", "memory"]

    @property
    def bytes(self) -> float:
        return self.weight_bytes + self.kv_bytes + self.activation_bytes


@dataclass(frozen=True, kw_only=True)
class StepEstimate:
    """A step on one rank.

    The step's bound has the lines of weights, attention and norms. Those of kind `further` come on
    top where kernels are not fused; they are kept apart.

    collective_bytes: what a rank sends in two ring all-reduces per layer; its time is not counted.
    """

    lines: tuple[StepLine, ...]
    rows: int
    collective_bytes: int = 0

    @property
    def seconds(self) -> float:
        """The bound: weights, attention and norms."""
        return sum(line.seconds for line in self.lines if line.kind != "further")

    @property
    def further_seconds(self) -> float:
        """What further traffic adds at most."""
        return sum(line.seconds for line in self.lines if line.kind == "further")

    def seconds_of(self, kind: Kind) -> float:
        return sum(line.seconds for line in self.lines if line.kind == kind)

    def share(self, kind: Kind) -> float:
        """Of the bound."""
        return self.seconds_of(kind) / self.seconds

    @property
    def metadata_bytes(self) -> float:
        """Scales and zero points that the step reads with the weights."""
        return sum(line.metadata_bytes for line in self.lines)

    @property
    def workspace_bytes(self) -> float:
        """What partial results of split attention hold, in one layer after the other."""
        parts = [line for line in self.lines if line.name == "split_kv_write"]
        return sum(line.bytes / line.launches for line in parts)

    def line(self, name: str) -> StepLine:
        return next(line for line in self.lines if line.name == name)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready fields."""
        kinds: tuple[Kind, ...] = ("weights", "attention", "norm")
        return {
            "seconds": self.seconds,
            "further_seconds": self.further_seconds,
            "rows": self.rows,
            "collective_bytes": self.collective_bytes,
            "metadata_bytes": self.metadata_bytes,
            "workspace_bytes": self.workspace_bytes,
            "tokens_per_second": self.rows / self.seconds,
            "shares": {kind: self.share(kind) for kind in kinds},
            "lines": [vars(line) for line in self.lines],
        }


def estimate_step(
    decoder: Decoder,
    work: Work,
    roof: Roof,
    precision: Precision | None = None,
    parallel: Parallel | None = None,
    *,
    kv_splits: int = 1,
) -> StepEstimate:
    """The bound of one step of `work` on each rank.

    Raises:
        AscendInferError: AI-DEV-014 when the device has no peak for a dtype, AI-EST-003 when heads
            cannot be divided, AI-EST-001 for kv_splits below 1.
    """
    require_count("kv_splits", kv_splits)
    ranks, stored = parallel or Parallel(), precision or Precision()
    rank = decoder.on_rank(ranks)
    reduced = work.rows * decoder.hidden_size * stored.activations.bits // 8
    merged: dict[str, list[Operator]] = {}
    for operator in operators(rank, work, stored, kv_splits=kv_splits):
        merged.setdefault(operator.name, []).append(operator)
    return StepEstimate(
        lines=tuple(_line(name, alike, roof) for name, alike in merged.items()),
        rows=work.rows,
        collective_bytes=4 * len(rank.layers) * reduced * (ranks.tensor - 1) // ranks.tensor,
    )


def _line(name: str, alike: list[Operator], roof: Roof) -> StepLine:
    compute = [o.launches * roof.compute_seconds(o.flops, o.dtype) for o in alike]
    memory = [o.launches * roof.memory_seconds(o.bytes) for o in alike]
    return StepLine(
        name=name,
        kind=alike[0].kind,
        launches=sum(o.launches for o in alike),
        flops=sum(o.launches * o.flops for o in alike),
        weight_bytes=sum(o.launches * o.weight_bytes for o in alike),
        metadata_bytes=sum(o.launches * o.metadata_bytes for o in alike),
        kv_bytes=sum(o.launches * o.kv_bytes for o in alike),
        activation_bytes=sum(o.launches * o.activation_bytes for o in alike),
        seconds=sum(map(max, compute, memory)),
        bound="compute" if sum(compute) > sum(memory) else "memory",
    )
