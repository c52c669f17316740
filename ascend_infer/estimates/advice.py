"""What to optimise: where a decode step's bound lies, what could gain, and what to measure next."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from ascend_infer.estimates.formats import Precision
from ascend_infer.estimates.gains import Gain, Situation
from ascend_infer.estimates.models import Decoder, Parallel
from ascend_infer.estimates.operators import Kind
from ascend_infer.estimates.roof import Roof
from ascend_infer.estimates.step import StepEstimate, estimate_step
from ascend_infer.estimates.work import Work
from kernels_npu.errors import UsageError

FORMULA = (
    "bound before / bound after the change; for kernels: time at the assumed efficiency / time if "
    "those of one class ran at their bound"
)
#: From this many times the bound on, something else than the operators' traffic decides.
_FAR_FROM_BOUND = 2.0
_CLASSES: dict[Kind, str] = {
    "weights": "products with weights",
    "attention": "attention over the cache",
    "norm": "norms",
}


@dataclass(frozen=True, kw_only=True)
class ClassBound:
    """One class of operators. share: of the step's bound. bound: what most of its time is."""

    name: str
    seconds: float
    share: float
    bound: Literal["compute", "memory"]
    largest: str


@dataclass(frozen=True, kw_only=True)
class Advice:
    """measured_seconds: of a real step, None when the caller has none.

    largest_batch: sequences that fit into the device's memory; None where its size is not known.
    """

    step: StepEstimate
    classes: tuple[ClassBound, ...]
    gains: tuple[Gain, ...]
    measurements: tuple[str, ...]
    measured_seconds: float | None
    batch: int
    largest_batch: int | None

    @property
    def fits(self) -> bool:
        """Whether the batch fits into the device's memory, as far as that is known."""
        return self.largest_batch is None or self.batch <= self.largest_batch

    @property
    def verdict(self) -> str:
        """The class that decides, in a sentence; and whether the batch fits at all."""
        top = max(self.classes, key=lambda one: one.seconds)
        text = (
            f"{top.name}: {top.share:.1%} of the bound, bound by {top.bound}; the largest operator "
            f"is {top.largest}"
        )
        if self.fits:
            return text
        return f"{text}. A batch of {self.batch} does not fit, at most {self.largest_batch} do"

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready fields."""
        return {
            "verdict": self.verdict,
            "fits": self.fits,
            "largest_batch": self.largest_batch,
            "bound_seconds": self.step.seconds,
            "measured_seconds": self.measured_seconds,
            "classes": [vars(one) for one in self.classes],
            "gains": [vars(gain) for gain in self.gains],
            "next_measurements": list(self.measurements),
        }


def advise(
    decoder: Decoder,
    roof: Roof,
    *,
    batch: int,
    context: int,
    precision: Precision | None = None,
    parallel: Parallel | None = None,
    measured_seconds: float | None = None,
    efficiency: float = 0.5,
    reserve: float = 0.1,
) -> Advice:
    """What limits decode steps of `batch` sequences of `context` tokens, and what could help.

    Args:
        measured_seconds: of a real decode step.
        efficiency: bound over time that kernels reach today; an assumption until it is measured.
        reserve: share of the memory that is kept for everything but weights and cache.

    Raises:
        AscendInferError: AI-EST-001, AI-EST-003, AI-DEV-014.
    """
    for name, value, most in (
        ("measured step in seconds", measured_seconds, math.inf),
        ("efficiency of kernels", efficiency, 1.0),
    ):
        if value is not None and not (0 < value <= most and math.isfinite(value)):
            raise UsageError(
                "AI-EST-001",
                f"the {name} is {value}",
                rule=f"the {name} is above zero" + (" and at most 1" if most == 1 else ""),
                fix=f"correct the {name}",
            )
    stored, ranks = precision or Precision(), parallel or Parallel()
    step = estimate_step(decoder, Work.batch(batch, context), roof, stored, ranks)
    classes = tuple(_class(step, kind) for kind in _CLASSES)
    situation = Situation(
        decoder=decoder,
        roof=roof,
        batch=batch,
        context=context,
        precision=stored,
        parallel=ranks,
        step=step,
        efficiency=efficiency,
        reserve=reserve,
    )
    gains = [*situation.gains()]
    if measured_seconds is not None:
        gap = measured_seconds / step.seconds
        gains.append(
            Gain(
                change="run at the bound",
                latency=gap,
                throughput=gap,
                condition="launches, host time, poor kernels and communication fill the gap",
            )
        )
    gains.sort(key=lambda gain: max(gain.latency, gain.throughput), reverse=True)
    return Advice(
        step=step,
        classes=classes,
        gains=tuple(gains),
        measurements=tuple(_measurements(step, classes, measured_seconds)),
        measured_seconds=measured_seconds,
        batch=batch,
        largest_batch=situation.largest_batch(),
    )


def _class(step: StepEstimate, kind: Kind) -> ClassBound:
    lines = [line for line in step.lines if line.kind == kind]
    by_compute = sum(line.seconds for line in lines if line.bound == "compute")
    seconds = step.seconds_of(kind)
    return ClassBound(
        name=_CLASSES[kind],
        seconds=seconds,
        share=step.share(kind),
        bound="compute" if by_compute > seconds / 2 else "memory",
        largest=max(lines, key=lambda line: line.seconds).name,
    )


def _measurements(
    step: StepEstimate, classes: tuple[ClassBound, ...], measured: float | None
) -> Iterator[str]:
    bound_ms = step.seconds * 1e3
    if measured is None:
        yield (
            f"time a decode step in a graph (median of hundreds): the bound is {bound_ms:.2f} ms; "
            f"far beyond {_FAR_FROM_BOUND:g} times that, look at launches and host time first"
        )
    elif measured < step.seconds:
        yield (
            f"the step takes {measured / step.seconds:.2f} of its bound of {bound_ms:.2f} ms, "
            "which cannot be: compare dtypes, batch, context and the device's figures with the run"
        )
    elif measured > _FAR_FROM_BOUND * step.seconds:
        yield (
            f"the step takes {measured / step.seconds:.1f} times its bound of {bound_ms:.2f} ms: "
            "count launches and the device's idle share per step (ascend-infer profile show), "
            "eager against graph"
        )
    top = max(classes, key=lambda one: one.seconds)
    line = step.line(top.largest)
    work = (
        f"moves {line.bytes / line.launches / 1e6:,.1f} MB"
        if line.bound == "memory"
        else f"computes {line.flops / line.launches / 1e9:,.1f} GFLOP"
    )
    yield (
        f"msprof op on {line.name}, {line.launches} launches per step: one {work} and takes at "
        f"least {line.seconds / line.launches * 1e6:,.1f} us; the ratio is its efficiency"
    )
