"""Launches under the roofs of a chip: operations per byte against operations per unit of length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from profiling.analysis.figures import digits
from profiling.analysis.roofline import Ceiling, Roofline
from profiling.printable import shortened
from profiling.report.plots.drawing import INK, Drawing, drawing
from profiling.report.view import Plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Launches that are told apart by numbers; more of them would cover each other.
MOST_POINTS = 16
#: Roofs of `Roofline.unit`: what a rate is multiplied by, and the words for it.
_RATES = {
    "cycles": (1.0, "operations per modelled cycle", "bytes per modelled cycle"),
    "us": (1e-3, "billion operations per second", "GB/s"),
}
_COLOURS = {"memory": "mte2", "cube": "cube", "vector": "vec"}


def roofline_plot(named: Sequence[tuple[str, Roofline]], name: str) -> Plot | None:
    """The launches that have operations and a length; None when there is none.

    named: what to call each launch, the most important first; all of one chip and unit.
    name: unique on the page.
    """
    points = [(label, roof) for label, roof in named if roof.intensity > 0 and roof.achieved]
    shown = points[:MOST_POINTS]
    if not shown:
        return None
    chip = shown[0][1].chip.name
    scale = _RATES[shown[0][1].unit][0]
    with drawing(name, 4.2, f"roofline of {chip} with {len(shown)} launches") as canvas:
        grid = canvas.figure.add_gridspec(1, 2, width_ratios=[3.0, 1.0])
        axes = canvas.figure.add_subplot(grid[0])
        _draw_roofs(canvas, axes, [roof for _, roof in shown])
        for place, (label, roof) in enumerate(shown, start=1):
            axes.plot(
                [roof.intensity],
                [scale * (roof.achieved or 0.0)],
                marker="o",
                markersize=11,
                color=INK["raised"],
                markeredgecolor=INK["accent"],
                markeredgewidth=1.4,
                gid=canvas.entitle(_told(label, roof)),
            )
            axes.annotate(
                str(place),
                (roof.intensity, scale * (roof.achieved or 0.0)),
                ha="center",
                va="center_baseline",
                fontsize=7,
            )
        names = canvas.figure.add_subplot(grid[1])
        names.axis("off")
        for place, (label, _) in enumerate(shown, start=1):
            names.text(0.0, 1 - place / (MOST_POINTS + 1), f"{place}  {shortened(label, 30)}")
    return Plot(
        title=f"Roofline of {chip}",
        svg=canvas.svg,
        caption=_caption(shown[0][1]),
        left_out=_left_out(named, points, shown),
    )


def _draw_roofs(canvas: Drawing, axes: Axes, launches: Sequence[Roofline]) -> None:
    scale, operations, per_bytes = _RATES[launches[0].unit]
    memory = launches[0].ceilings[0]
    roofs = _roofs(launches)
    ridges = [ceiling.rate / memory.rate for ceiling in roofs.values()]
    intensities = [roof.intensity for roof in launches]
    low, high = min([*intensities, *ridges]) / 3, max([*intensities, *ridges]) * 4
    slope = scale * memory.rate
    top = max(ridges, default=high)
    _line(canvas, axes, [low, top], [low * slope, top * slope], "memory", memory)
    _annotate(axes, f"memory: {digits(slope)} {per_bytes}", low, low * slope, "left")
    for (title, ceiling), ridge in zip(roofs.items(), ridges, strict=True):
        height = scale * ceiling.rate
        _line(canvas, axes, [ridge, high], [height, height], title, ceiling)
        _annotate(axes, f"{title}: {digits(height)}", high, height, "right")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(low, high)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: digits(value))
        axis.set_minor_formatter("")
    axes.set_xlabel("operations per byte of global memory")
    axes.set_ylabel(operations)
    axes.grid(which="major")
    axes.set_axisbelow(True)
    axes.tick_params(which="both", length=0)


def _line(
    canvas: Drawing, axes: Axes, x: list[float], y: list[float], title: str, ceiling: Ceiling
) -> None:
    axes.plot(
        x,
        y,
        color=INK[_COLOURS[ceiling.unit]],
        linewidth=1.6,
        gid=canvas.entitle(f"{title}: {ceiling.of.source}, {ceiling.of.evidence}"),
    )


def _roofs(launches: Sequence[Roofline]) -> Mapping[str, Ceiling]:
    """The peaks under which the launches stand, by unit and dtype."""
    found = {
        f"{ceiling.unit} {ceiling.dtype}".strip(): ceiling
        for roof in launches
        for ceiling in roof.ceilings
        if ceiling.unit != "memory"
    }
    return dict(sorted(found.items(), key=lambda item: item[1].rate))


def _annotate(axes: Axes, text: str, x: float, y: float, side: str) -> None:
    offset = (14, -2) if side == "left" else (-4, 4)
    axes.annotate(
        text,
        (x, y),
        xytext=offset,
        textcoords="offset points",
        ha=side,
        color=INK["muted"],
        fontsize=8,
    )


def _told(label: str, roof: Roofline) -> str:
    scale, operations, _ = _RATES[roof.unit]
    achieved = digits(scale * (roof.achieved or 0.0))
    used = "" if roof.usage is None else f", {roof.usage:.1%} of what {roof.highest.unit} allows"
    return f"{label}: {digits(roof.intensity)} operations per byte, {achieved} {operations}{used}"


def _caption(roof: Roofline) -> str:
    memory = roof.ceilings[0].of
    unit = (
        "Lengths are cycles of the simulator's cost model, roofs are rates per cycle of the "
        "chip's rated clock; neither is a time."
        if roof.unit == "cycles"
        else "Lengths are the profiler's task durations."
    )
    return (
        f"{unit} Bandwidth of {roof.chip.name}: {digits(memory.value / 1e9)} GB/s "
        f"({memory.evidence}: {memory.source}). Point at a roof or a launch for its figures."
    )


def _left_out(named: Sequence[object], points: Sequence[object], shown: Sequence[object]) -> str:
    without, more = len(named) - len(points), len(points) - len(shown)
    told = []
    if without:
        told.append(f"{without:,} without arithmetic or without a length")
    if more:
        told.append(f"{more:,} that move less")
    return "Kernels not drawn: " + ", ".join(told) if told else ""
