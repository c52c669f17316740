"""Changes of a decode step, and the most that each can gain."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ascend_infer.estimates.boundary import amdahl
from ascend_infer.estimates.capacity import capacity
from ascend_infer.estimates.formats import FORMATS, Precision, get_format
from ascend_infer.estimates.kv import kv_ledger
from ascend_infer.estimates.models import Decoder, Parallel
from ascend_infer.estimates.operators import Kind
from ascend_infer.estimates.roof import Roof
from ascend_infer.estimates.step import StepEstimate, estimate_step
from ascend_infer.estimates.weights import weight_ledger
from ascend_infer.estimates.work import Work
from kernels_npu.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Gain:
    """One change. latency: how many times shorter a step at most; throughput: tokens per second."""

    change: str
    latency: float
    throughput: float
    condition: str


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What changes start from: a step, and how it comes about.

    efficiency: bound over time that kernels are assumed to reach today. reserve: share of the
    memory that is not for weights and cache.
    """

    decoder: Decoder
    roof: Roof
    batch: int
    context: int
    precision: Precision
    parallel: Parallel
    step: StepEstimate
    efficiency: float
    reserve: float

    def gains(self) -> Iterator[Gain]:
        """Every change that is possible here, what it gains at most, and what it asks for."""
        for change, changed, condition in self._narrower():
            yield self._gain(change, self._seconds(precision=changed), condition)
        yield self._better("attention", "an attention kernel at its bound")
        yield self._better("weights", "matrix kernels at their bound")
        yield from self._batching()
        yield from self._more_ranks()

    def _narrower(self) -> Iterator[tuple[str, Precision, str]]:
        """Dtypes of fewer bits than today's."""
        now, int8 = self.precision, get_format("int8", scales=False)
        for name in ("int8", "int4"):
            if FORMATS[name].bits < now.weights.bits:
                yield (
                    f"weights in {FORMATS[name].describe()}",
                    replace(now, weights=FORMATS[name]),
                    "a kernel that expands weights while it multiplies; accuracy to be checked",
                )
        if now.activations.bits > 8 and self.roof.knows("int8"):
            weights = FORMATS["int8"] if now.weights.bits > 8 else now.weights
            yield (
                f"activations in int8, weights in {weights.dtype}",
                replace(now, weights=weights, activations=int8),
                "products in int8; accuracy to be checked",
            )
        if now.kv.bits > 8:
            yield (
                "keys and values in int8",
                replace(now, kv=int8),
                "attention that reads int8; accuracy at long contexts to be checked",
            )

    def _better(self, kind: Kind, what: str) -> Gain:
        """All kernels reach `efficiency` today; those of one class rise to their bound."""
        share = self.step.share(kind)
        gain = amdahl(share, 1 / self.efficiency)
        return Gain(
            change=what,
            latency=gain,
            throughput=gain,
            condition=f"if kernels reach {self.efficiency:.0%} of their bound today; "
            f"{amdahl(share, math.inf):,.2f}x if the class took no time at all",
        )

    def _seconds(
        self,
        *,
        precision: Precision | None = None,
        parallel: Parallel | None = None,
        batch: int = 0,
    ) -> float:
        work = Work.batch(batch or self.batch, self.context)
        changed = precision or self.precision, parallel or self.parallel
        return estimate_step(self.decoder, work, self.roof, *changed).seconds

    def _gain(self, change: str, seconds: float, condition: str, batch: int = 0) -> Gain:
        latency = self.step.seconds / seconds
        return Gain(
            change=change,
            latency=latency,
            throughput=latency * (batch or self.batch) / self.batch,
            condition=condition,
        )

    def largest_batch(self) -> int | None:
        """Sequences of the context that the memory holds."""
        if self.roof.memory_bytes is None:
            return None
        rank = self.decoder.on_rank(self.parallel)
        weights = weight_ledger(rank, self.precision).bytes
        kv = kv_ledger(rank, self.precision.kv, context=self.context)
        room = capacity(self.roof.memory_bytes, weights, kv, (self.context,), reserve=self.reserve)
        return room.sequences[self.context]

    def _batching(self) -> Iterator[Gain]:
        largest = self.largest_batch()
        if largest is not None and largest > self.batch:
            yield self._gain(
                f"batch of {largest}, all that fits",
                self._seconds(batch=largest),
                "so many requests at once; each waits longer per token",
                batch=largest,
            )

    def _more_ranks(self) -> Iterator[Gain]:
        twice = replace(self.parallel, tensor=2 * self.parallel.tensor)
        try:
            seconds = self._seconds(parallel=twice)
        except UsageError:  # heads that twice as many ranks do not divide
            return
        yield self._gain(
            f"tensor parallelism over {twice.tensor} ranks",
            seconds,
            "before communication, which two collectives per layer add",
        )
