"""When the pipes were active: one row per track of a trace."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from profiling.printable import shortened
from profiling.provenance import WITHOUT_NOISE
from profiling.records.trace import Span, Trace
from profiling.report.plots.drawing import INK, drawing
from profiling.report.view import Plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Rows that fit a printed page.
MOST_TRACKS = 48
#: Spans closer than this share of the axis are drawn as one, for they would share a pixel; the bar
#: is paler the less of it they fill, and no longer than the second share.
RESOLUTION = 1 / 1500
COARSE = 1 / 150
_INCHES_PER_TRACK = 0.165

#: What traces call the pipes: ours by their short names, the vendor's simulator by their long ones.
PIPES = {
    "S": "scalar",
    "SCALAR": "scalar",
    "MTE1": "mte1",
    "MTE2": "mte2",
    "MTE3": "mte3",
    "M": "cube",
    "CUBE": "cube",
    "V": "vec",
    "VECTOR": "vec",
    "FIX": "fixpipe",
    "FIXP": "fixpipe",
    "FIXPIPE": "fixpipe",
}
_ORDER = {name: place for place, name in enumerate(PIPES)}
#: A core of a simulated launch, and what a pipe does there when it works.
_CORE = re.compile(r"^(?P<launch>.* #\d+) block (?P<block>\d+) (AIC|AIV\d)$")
_WORK = frozenset({"", "instruction"})


@dataclass(kw_only=True)
class _Bar:
    """One or several spans; `covered` is the time in which one of them was active."""

    begin: float
    end: float
    covered: float

    def joins(self, begin: float, length: float) -> bool:
        """Whether a span that begins there is drawn with this bar.

        Bars of many spans stay short, so that it can be seen where they are dense.
        """
        gap = begin - self.end
        return gap <= 0 or (gap < length * RESOLUTION and begin - self.begin < length * COARSE)

    @property
    def density(self) -> float:
        """The covered part."""
        whole = self.end - self.begin
        return min(1.0, self.covered / whole) if whole > 0 else 1.0


@dataclass(frozen=True, kw_only=True)
class _Track:
    process: str
    name: str
    spans: Sequence[Span]

    @property
    def busy(self) -> float:
        return float(sum(span.duration for span in self.spans if span.category in _WORK))


def timeline(trace: Trace, name: str) -> Plot | None:
    """The tracks that matter most; None when the trace has no span.

    Of simulated launches these are the first ones, each with the block that takes longest; of
    other traces the busiest processes.

    name: unique on the page.
    """
    tracks = _tracks(trace.spans)
    if not tracks:
        return None
    shown = _shown(tracks)
    start = min(float(span.start) for track in shown for span in track.spans)
    end = max(float(span.end) for track in shown for span in track.spans)
    length = (end - start) or 1.0
    height = 0.7 + _INCHES_PER_TRACK * len(shown)
    with drawing(name, height, f"activity of {len(shown)} tracks over time") as canvas:
        from matplotlib.colors import to_rgba

        axes = canvas.figure.add_subplot()
        for place, track in enumerate(shown):
            colour = INK[PIPES.get(track.name.upper(), "accent")]
            told = f"{track.process} {track.name}: {len(track.spans):,} spans"
            for works in (False, True):
                spans = [span for span in track.spans if (span.category in _WORK) is works]
                if not spans:
                    continue
                bars = _bars(spans, start, length)
                axes.broken_barh(
                    [(bar.begin, max(bar.end - bar.begin, length * RESOLUTION)) for bar in bars],
                    (place - 0.4, 0.8) if works else (place - 0.05, 0.1),
                    facecolors=[to_rgba(colour, 0.15 + 0.85 * bar.density) for bar in bars],
                    linewidth=0,
                    gid=canvas.entitle(f"{told}, active {track.busy / length:.1%}"),
                )
        axes.set_yticks(range(len(shown)), list(_labels(shown)), fontsize=8)
        for place in _beginnings(shown)[1:]:
            axes.axhline(place - 0.5, color=INK["grid"], linewidth=0.8)
        axes.set_ylim(len(shown) - 0.4, -0.6)
        axes.set_xlim(0, length)
        _label_axis(axes, trace, length)
        axes.grid(axis="x")
        axes.set_axisbelow(True)
        axes.tick_params(length=0)
    waits = any(span.category not in _WORK for track in shown for span in track.spans)
    thin = " Thin lines are flags and waits." if waits else ""
    return Plot(
        title="Timeline",
        svg=canvas.svg,
        caption=f"{trace.file}, {trace.evidence}.{thin} Pale bars are many short spans with gaps "
        "between them. Point at a bar for its track.",
        left_out=_left_out(tracks, shown),
    )


def _label_axis(axes: Axes, trace: Trace, length: float) -> None:
    """Cycles, or microseconds; a simulated device has no time, so that shares are shown."""
    from matplotlib.ticker import PercentFormatter

    axes.xaxis.set_major_formatter("{x:,.0f}" if length > 10 else "{x:g}")
    if trace.unit == "cycles":
        axes.set_xlabel("modelled cycles")
    elif trace.evidence in WITHOUT_NOISE:
        axes.xaxis.set_major_formatter(PercentFormatter(xmax=length, decimals=0))
        axes.set_xlabel("of the simulator's own axis, which is not a time")
    else:
        axes.set_xlabel("µs since the first span shown")


def _tracks(spans: Iterable[Span]) -> list[_Track]:
    """In the order in which the trace begins them; the pipes of a process in one order."""
    grouped: dict[str, dict[str, list[Span]]] = defaultdict(lambda: defaultdict(list))
    for span in spans:
        grouped[span.process][span.track].append(span)
    return [
        _Track(process=process, name=name, spans=sorted(ours, key=lambda span: span.start))
        for process, tracks in grouped.items()
        for name, ours in sorted(tracks.items(), key=lambda track: _ORDER.get(track[0].upper(), 99))
    ]


def _shown(tracks: Sequence[_Track]) -> list[_Track]:
    """Whole groups of tracks as long as they fit, in their order; at least a part of the first."""
    groups: dict[str, list[_Track]] = defaultdict(list)
    for track in tracks:
        groups[track.process].append(track)
    simulated = {process: found for process in groups if (found := _CORE.match(process))}
    if simulated:
        groups = _longest_blocks(groups, simulated)
        ranked = list(groups)
    else:
        ranked = sorted(groups, key=lambda name: -sum(track.busy for track in groups[name]))
    room, chosen = MOST_TRACKS, set[str]()
    for name in ranked:
        if chosen and len(groups[name]) > room:
            break
        chosen.add(name)
        room -= len(groups[name])
    return [track for name in groups if name in chosen for track in groups[name]][:MOST_TRACKS]


def _longest_blocks(
    cores: Mapping[str, list[_Track]], simulated: Mapping[str, re.Match[str]]
) -> dict[str, list[_Track]]:
    """Of each launch the tracks of the block that ends last, in the order of the launches."""
    launches: dict[str, dict[str, list[_Track]]] = defaultdict(lambda: defaultdict(list))
    for process, found in simulated.items():
        launches[found["launch"]][found["block"]] += cores[process]
    longest = {
        launch: max(blocks.values(), key=lambda tracks: max(t.spans[-1].end for t in tracks))
        for launch, blocks in launches.items()
    }
    begins = {name: min(t.spans[0].start for t in tracks) for name, tracks in longest.items()}
    return {name: longest[name] for name in sorted(longest, key=lambda name: begins[name])}


def _bars(spans: Sequence[Span], start: float, length: float) -> list[_Bar]:
    """Bars relative to the axis, `length` long; spans that would share a pixel are one bar."""
    bars: list[_Bar] = []
    for span in spans:
        begin, end = float(span.start) - start, float(span.end) - start
        last = bars[-1] if bars else None
        if last is not None and last.joins(begin, length):
            last.covered += max(0.0, end - max(begin, last.end))
            last.end = max(last.end, end)
        else:
            bars.append(_Bar(begin=begin, end=end, covered=end - begin))
    return bars


def _beginnings(tracks: Sequence[_Track]) -> list[int]:
    """The rows at which a process begins."""
    return [
        place
        for place, track in enumerate(tracks)
        if place == 0 or tracks[place - 1].process != track.process
    ]


def _labels(tracks: Sequence[_Track]) -> Iterator[str]:
    """The process stands at its first row only."""
    first = set(_beginnings(tracks))
    for place, track in enumerate(tracks):
        name = shortened(track.name, 16)
        yield f"{shortened(track.process, 42)}   {name}" if place in first else name


def _left_out(tracks: Sequence[_Track], shown: Sequence[_Track]) -> str:
    more = len(tracks) - len(shown)
    return f"{more:,} of {len(tracks):,} tracks are not drawn" if more else ""
