"""What the pipes of a core did at the same time, from the spans of a simulated trace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kernels_npu.errors import SourceLocation
from profiling.analysis.sentence import Sentence
from profiling.records.table import Figure
from profiling.records.trace import Span, Trace

#: What a pipe does while it is not waiting.
_WORK = "instruction"
#: Pipes that move data between global memory and a core, and pipes that compute, as traces name
#: them.
_MOVES = frozenset({"MTE2", "MTE3", "FIX"})
_COMPUTES = frozenset({"M", "V"})
#: Ours: moves that are mostly alone are worth a second buffer.
MUCH_ALONE = 0.50

Interval = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """One core of one block in a trace of modelled cycles.

    Args:
        process: as the trace names the core.
        length: from its first instruction to its last.
        busy: cycles in which a pipe worked, by pipe.
        moving, computing: cycles in which at least one such pipe worked.
        both: cycles in which both did.
    """

    process: str
    length: int
    busy: Mapping[str, int]
    moving: int
    computing: int
    both: int

    @property
    def hidden(self) -> float:
        """The part of the moves that computing covers."""
        return self.both / self.moving if self.moving else 0.0


def overlaps(trace: Trace) -> list[Overlap]:
    """One per core that worked, in the order of the trace; none of traces that are not ours."""
    cores: dict[str, list[Span]] = defaultdict(list)
    if trace.unit == "cycles":
        for span in trace.spans:
            if span.category == _WORK:
                cores[span.process].append(span)
    return [_overlap(process, spans) for process, spans in cores.items()]


def trace_sentences(trace: Trace) -> list[Sentence]:
    """What the trace says about each kernel: of its cube and vector cores that ran longest."""
    longest: dict[tuple[str, str], Overlap] = {}
    for core in overlaps(trace):
        place = (core.process.split(" #")[0], "cube" if core.process.endswith("AIC") else "vector")
        if core.moving and core.computing:
            best = longest.get(place)
            longest[place] = core if best is None or core.length > best.length else best
    return [_sentence(trace, kernel, core) for (kernel, _), core in longest.items()]


def _sentence(trace: Trace, kernel: str, core: Overlap) -> Sentence:
    alone = core.moving - core.both
    figures = {"moving": core.moving, "computing": core.computing, "both": core.both}
    exposed = alone > MUCH_ALONE * core.moving and alone > MUCH_ALONE * core.computing
    return Sentence(
        topic="overlap",
        text=f"{kernel}: in {core.process.removeprefix(kernel).strip()} data moved in "
        f"{core.moving:,} of {core.length:,} cycles, {core.both:,} of them ({core.hidden:.0%}) "
        f"while it computed; {alone:,} cycles of moves are exposed",
        rule="unions of the spans in which a pipe executes (waits and flags left out): MTE2, MTE3 "
        "and FIX move, M and V compute; reported where the exposed cycles are over "
        f"{MUCH_ALONE:.0%} of the moving and of the computing ones: load the next "
        "tile into a second buffer first",
        refs=tuple(
            Figure(
                key=f"{name}_cycles",
                value=cycles,
                unit=trace.unit,
                evidence=trace.evidence,
                where=SourceLocation(trace.file, 1),
            )
            for name, cycles in figures.items()
        ),
        flagged=exposed,
    )


def _overlap(process: str, spans: Sequence[Span]) -> Overlap:
    by_pipe: dict[str, list[Interval]] = defaultdict(list)
    for span in spans:
        by_pipe[span.track].append((int(span.start), int(span.end)))
    unions = {pipe: _union(found) for pipe, found in by_pipe.items()}
    moves = _union(i for pipe in _MOVES & set(unions) for i in unions[pipe])
    computes = _union(i for pipe in _COMPUTES & set(unions) for i in unions[pipe])
    return Overlap(
        process=process,
        length=int(max(s.end for s in spans) - min(s.start for s in spans)),
        busy={pipe: _length(found) for pipe, found in unions.items()},
        moving=_length(moves),
        computing=_length(computes),
        both=_length(moves) + _length(computes) - _length(_union([*moves, *computes])),
    )


def _union(intervals: Iterable[Interval]) -> list[Interval]:
    """Disjoint intervals that cover the same cycles, in their order."""
    joined: list[Interval] = []
    for start, end in sorted(intervals):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


def _length(intervals: Iterable[Interval]) -> int:
    return sum(end - start for start, end in intervals)
