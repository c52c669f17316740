"""The launches of kernels: a table of all, the roofline, and a section for each that matters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from profiling import analysis
from profiling.analysis import CoreTime, Roofline
from profiling.analysis.kernel_totals import LENGTHS
from profiling.devices import Chip
from profiling.records import FileKind, OpProfile, Profile
from profiling.report.plots.heatmap import Heat, heatmap
from profiling.report.plots.roofline import roofline_plot
from profiling.report.view import (
    Cell,
    Grid,
    Plot,
    Section,
    figure_cell,
    limited,
    number_cell,
    origin,
    text_cell,
)

_COLUMNS = (
    *("kernel", "type", "blocks", "length", "unit", "read, bytes", "written, bytes"),
    *("operations per byte", "of the roofline", "busiest pipe", "evidence", "from"),
)


def launches_section(
    profile: Profile, chip: Chip | None, most: int, anchors: Mapping[str, str]
) -> Section:
    """All launches in one table, those that move most bytes first; without bytes the longest.

    anchors: of the kernels that have a section.
    """
    ordered = by_weight(profile.kernels)
    told = [_row(kernel, chip, anchors.get(kernel.name, "")) for kernel in ordered[: most + 1]]
    rows, left_out = limited(told, most)
    left_out += max(0, len(ordered) - most - 1)
    grid = Grid(
        title="Most bytes first" if any(map(analysis.traffic_of, ordered)) else "Longest first",
        columns=_COLUMNS,
        rows=rows,
        left_out=left_out,
        note="Operations and bytes are of all cores together; point at a number for its file, "
        "line and evidence.",
    )
    return Section(anchor="launches", title="Launches", grids=(grid,))


def by_weight(kernels: Sequence[OpProfile]) -> list[OpProfile]:
    """The launches that move most bytes first; those without bytes by their length."""

    def weight(kernel: OpProfile) -> tuple[float, float]:
        traffic = analysis.traffic_of(kernel)
        length = length_of(kernel)
        return (-traffic.total if traffic else 0.0, -(length or 0.0))

    return sorted(kernels, key=weight)


def heaviest(profile: Profile) -> dict[str, OpProfile]:
    """Of each kernel the launch that moves most bytes, else takes longest; the heaviest first."""
    found: dict[str, OpProfile] = {}
    for kernel in by_weight(profile.kernels):
        found.setdefault(kernel.name, kernel)
    return found


def length_of(kernel: OpProfile) -> float | None:
    """The task's duration or, simulated, its modelled cycles."""
    figures = (kernel.info_figure(key) for key in LENGTHS)
    return next((figure.number for figure in figures if figure is not None), None)


def roofline_section(profile: Profile, chip: Chip | None) -> Section:
    """The plot, or what is missing for one."""
    title = "Roofline"
    if chip is None:
        lead = (
            "The files do not name the chip, so there is no roof to draw: name it with --chip, "
            "such as --chip Ascend910B2."
        )
        return Section(anchor="roofline", title=title, lead=lead)
    named: dict[str, list[tuple[str, Roofline]]] = defaultdict(list)
    for name, kernel in heaviest(profile).items():
        roof = analysis.roofline_of(kernel, chip)
        if roof is not None:
            named[roof.unit].append((name, roof))
    plots = [roofline_plot(points, f"roofline-{unit}") for unit, points in named.items()]
    drawn = tuple(plot for plot in plots if plot is not None)
    lead = "" if drawn else "No launch has bytes, operations and a length: no point can be drawn."
    return Section(anchor="roofline", title=title, lead=lead, plots=drawn)


def kernel_sections(profile: Profile, chip: Chip | None, most: int) -> Iterator[Section]:
    """A section for the heaviest launch of each kernel."""
    for place, (name, kernel) in enumerate(list(heaviest(profile).items())[:most]):
        count = sum(other.name == name for other in profile.kernels)
        cores = analysis.core_times(kernel)
        # A flat tree has its one launch in the folder that was named.
        lead = "The launch" if kernel.folder == "." else f"Launch {kernel.folder}"
        if count > 1:
            most_of = "moves most bytes" if analysis.traffic_of(kernel) else "takes longest"
            lead += f", the one of {count:,} that {most_of}"
        yield Section(
            anchor=f"kernel-{place}",
            title=name,
            lead=f"{lead}.",
            sentences=tuple(analysis.kernel_sentences(kernel, chip)),
            plots=tuple(_heat(cores, f"heat-{place}")),
            grids=(_pipes(cores),) if cores else (),
        )


def _row(kernel: OpProfile, chip: Chip | None, anchor: str) -> tuple[Cell, ...]:
    info, traffic = kernel.info, analysis.traffic_of(kernel)
    roof = analysis.roofline_of(kernel, chip) if chip is not None else None
    length = next((f for key in LENGTHS if (f := kernel.info_figure(key)) is not None), None)
    use = analysis.pipe_use(analysis.core_times(kernel))
    moved = "" if traffic is None else origin(traffic.whole)
    table = kernel.tables.get(FileKind.OP_BASIC_INFO) or next(iter(kernel.tables.values()))
    usage = None if roof is None else roof.usage
    return (
        text_cell(kernel.name, link=anchor),
        text_cell("" if info is None else info.op_type),
        figure_cell(kernel.info_figure("block_dim")),
        figure_cell(length),
        text_cell("" if length is None else length.unit),
        number_cell(None if traffic is None else traffic.read, origin=moved),
        number_cell(None if traffic is None else traffic.written, origin=moved),
        number_cell(roof.intensity if roof and roof.operations else None, origin=moved),
        number_cell(
            usage,
            "" if usage is None else f"{usage:.1%}",
            "" if roof is None else f"{roof.highest.of.source}, {roof.highest.of.evidence}",
        ),
        text_cell(f"{use[0].side} {use[0].pipe}, {use[0].share:.0%}", origin(use[0].busiest))
        if use
        else text_cell(""),
        text_cell(", ".join(evidence_of(kernel))),
        text_cell(table.file),
    )


def evidence_of(kernel: OpProfile) -> list[str]:
    """The levels of a launch's figures."""
    columns = (column for table in kernel.tables.values() for column in table.columns)
    found = {str(c.evidence) for c in columns if not c.quantity.is_text and c.known}
    return sorted(found - {"vendor-reported"})


def _pipes(cores: list[CoreTime]) -> Grid:
    use = analysis.pipe_use(cores)
    return Grid(
        title="Pipes",
        columns=("core", "pipe", "active", "unit", "of core time", "busiest core", "from"),
        rows=tuple(
            (
                text_cell(one.side),
                text_cell(one.pipe),
                number_cell(one.total, origin=origin(one.busiest)),
                text_cell(one.unit),
                number_cell(one.share, f"{one.share:.1%}", origin(one.busiest)),
                figure_cell(one.busiest),
                text_cell(one.busiest.where),
            )
            for one in use
        ),
    )


def _heat(cores: Sequence[CoreTime], name: str) -> Iterator[Plot]:
    if not cores:
        return
    rows: dict[str, dict[str, float]] = defaultdict(dict)
    for core in cores:
        rows[f"{core.core} whole"][core.block] = core.length
        for pipe, figure in core.pipes.items():
            if figure.number:
                rows[f"{core.core} {pipe}"][core.block] = figure.number
    blocks = list(dict.fromkeys(core.block for core in cores))
    unit = "modelled cycles" if cores[0].unit == "cycles" else "µs"
    heat = Heat(rows=rows, blocks=blocks, unit=unit)
    first = cores[0].time
    caption = (
        f"How long each core ran and its pipes were active ({first.where.file}, {first.evidence})."
    )
    plot = heatmap(heat, name, "Blocks", caption)
    if plot is not None:
        yield plot
