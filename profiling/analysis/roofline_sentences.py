"""What the roofline of a chip says about a launch, and what it should be asked next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kernels_npu.evidence import Evidence
from profiling.analysis.figures import amount, number
from profiling.analysis.pipes import BUSY_PIPE, MEMORY_PIPES, PipeUse, core_times, pipe_use
from profiling.analysis.roofline import Ceiling, Roofline, roofline_of
from profiling.analysis.sentence import Sentence
from profiling.devices import Chip
from profiling.records.kernel import OpProfile
from profiling.records.table import Figure

#: The vendor tool's limit: of the attainable rate.
HIGH_USAGE = 0.80

_WHAT = {"memory": "moving the bytes", "cube": "the products", "vector": "the vector operations"}


def roofline_sentences(kernel: OpProfile, chip: Chip) -> Iterator[Sentence]:
    """The bounds, and the verdict by msopprof's rules where the launch has a length."""
    roofline = roofline_of(kernel, chip)
    if roofline is None:
        return
    yield _bounds(roofline)
    if roofline.usage is not None and roofline.length is not None:
        yield _verdict(kernel, roofline, roofline.usage, roofline.length)


def _bounds(roofline: Roofline) -> Sentence:
    simulated = roofline.unit == "cycles"
    listed = ", ".join(
        f"{_WHAT[ceiling.unit]} {amount(ceiling.bound, roofline.unit)}"
        for ceiling in roofline.ceilings
    )
    operations = " and ".join(f"{n:,.0f} {u}" for u, n in roofline.operations.items())
    done = f" and {operations} operations, {roofline.intensity:.3g} per byte" if operations else ""
    missing = "" if operations else "; without counted operations computing is unknown"
    return Sentence(
        topic="roofline",
        text=f"{roofline.traffic.total:,.0f} B of global memory{done}; on {roofline.chip.name} at "
        f"least: {listed}{missing}",
        rule="; ".join(_rate(ceiling) for ceiling in roofline.ceilings)
        + (f"; cycles of {roofline.chip.cube_mhz} MHz, never a time" if simulated else ""),
        refs=(roofline.traffic.whole, *roofline.traffic.refs, *_bound_figures(roofline)),
    )


def _verdict(kernel: OpProfile, roofline: Roofline, usage: float, length: Figure) -> Sentence:
    """msopprof's: first the roofline, then the busiest pipe of data or of arithmetic."""
    highest, near = roofline.highest, usage > HIGH_USAGE
    pipes = [use for use in pipe_use(core_times(kernel)) if use.pipe != "scalar"]
    if near:
        cause = (
            "memory bound" if highest.unit == "memory" else f"compute bound by the {highest.unit}"
        )
    else:
        cause = f"latency bound, {_cause(pipes)}"
    achieved = highest.work / number(length)
    return Sentence(
        topic="verdict",
        text=f"{cause}: {_per(achieved, roofline, highest)} of "
        f"{_per(highest.rate, roofline, highest)} ({usage:.1%}), the {highest.unit} bound is "
        f"{amount(highest.bound, roofline.unit)} of {amount(number(length), roofline.unit)}"
        + (f"; {_beyond(roofline, highest)}" if usage > 1 else ""),
        rule=f"msopprof's: over {HIGH_USAGE:.0%} of the attainable rate is memory or compute "
        f"bound, else a pipe over {BUSY_PIPE:.0%} is the cause, else the pipeline"
        + ("; of modelled cycles" if roofline.unit == "cycles" else ""),
        refs=(length, *_bound_figures(roofline), *(use.busiest for use in pipes[:1])),
        # More than the chip can compute is an error of somebody's, not a good launch.
        flagged=not near or (usage > 1 and highest.unit != "memory"),
    )


def _cause(pipes: Sequence[PipeUse]) -> str:
    if not pipes:
        return "its pipes unknown without PipeUtilization"
    busiest = pipes[0]
    told = f"{busiest.pipe} {busiest.share:.0%} active"
    if busiest.share <= BUSY_PIPE:
        return f"caused by the pipeline, in which no pipe is active over {BUSY_PIPE:.0%} ({told})"
    return f"caused by {'memory' if busiest.pipe in MEMORY_PIPES else 'computing'}, {told}"


def _beyond(roofline: Roofline, highest: Ceiling) -> str:
    """Why a launch can be shorter than its bound."""
    if highest.unit != "memory":
        return f"more than {roofline.chip.name} can: is it the chip?"
    if roofline.unit == "cycles":
        return (
            "the cost model gives each core its own bandwidth, so the chip's memory is the bound "
            "that holds"
        )
    return "more than the device memory gives: the L2 served the rest"


def _per(rate: float, roofline: Roofline, ceiling: Ceiling) -> str:
    """A rate per cycle, or per second in powers of ten."""
    memory = ceiling.unit == "memory"
    if roofline.unit == "cycles":
        return f"{rate:,.1f} {'B' if memory else 'operations'} per cycle"
    return f"{rate / 1e3:,.4g} GB/s" if memory else f"{rate / 1e6:,.4g} TFLOP/s"


def _rate(ceiling: Ceiling) -> str:
    figure = ceiling.of
    what = f"{ceiling.unit} {ceiling.dtype}".strip()
    return f"{what}: {figure.value:.4g} {figure.unit} ({figure.evidence}: {figure.source})"


def _bound_figures(roofline: Roofline) -> tuple[Figure, ...]:
    """The bounds as modelled figures; they stand where their bytes and operations do."""
    where = roofline.traffic.whole.where
    bounds = tuple(
        Figure(
            key=f"{ceiling.unit}_bound",
            value=round(ceiling.bound, 3),
            unit=roofline.unit,
            evidence=Evidence.MODELLED,
            where=where,
        )
        for ceiling in roofline.ceilings
    )
    return (*bounds, *roofline.refs)
