"""Two sides, kernel by kernel."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from profiling.comparison import statistic
from profiling.comparison.measurement import Kernel, Key, Measurements, Metric
from profiling.comparison.sides import Side, sides_of
from profiling.comparison.verdict import Difference, difference, judged
from profiling.conditions import MEANING, headline_of
from profiling.records.note import Note, Severity


@dataclass(frozen=True, kw_only=True)
class Matched:
    """A figure of a kernel that both sides have; where: its first sample on each side."""

    key: Key
    difference: Difference
    where: tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Unmatched:
    """A figure of a kernel that one side has.

    elsewhere: the evidence levels under which the other side has it; empty when it has none.
    """

    key: Key
    count: int
    typical: float
    where: str
    elsewhere: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Everything that two sides say about each other.

    Args:
        before, after: the paths of each side.
        matched: the largest figures first.
        only_before, only_after: what has no counterpart.
        headline: the conditions that are missing; a report's first line. Empty when none is.
        remarks: what a reader has to know about how the samples came together.
        notes: what was wrong with the files.
    """

    before: tuple[str, ...]
    after: tuple[str, ...]
    matched: tuple[Matched, ...]
    only_before: tuple[Unmatched, ...]
    only_after: tuple[Unmatched, ...]
    headline: str
    remarks: tuple[str, ...]
    notes: tuple[Note, ...]

    @property
    def damaged(self) -> bool:
        """Whether figures were lost on the way here."""
        return any(note.severity is Severity.DAMAGE for note in self.notes)


def compare(before: Sequence[Measurements], after: Sequence[Measurements]) -> Comparison:
    """Compare all figures that both sides have under one evidence level.

    Raises:
        EnvironmentProblem: AI-BENCH-021, measured figures are compared and scipy is missing.
    """
    first, second = sides_of(before, after)
    matched = [
        Matched(
            key=key,
            difference=difference(key, runs, second.runs[key]),
            where=(first.where[key], second.where[key]),
        )
        for key, runs in first.runs.items()
        if key in second.runs
    ]
    return Comparison(
        before=_paths(before),
        after=_paths(after),
        matched=tuple(sorted(_judged(matched), key=_largest_first)),
        only_before=tuple(_unmatched(first, second)),
        only_after=tuple(_unmatched(second, first)),
        headline=headline_of([run.conditions for run in (*before, *after)]),
        remarks=tuple(_remarks(before, after)),
        notes=tuple(dict.fromkeys(note for run in (*before, *after) for note in run.notes)),
    )


def _judged(matched: Sequence[Matched]) -> list[Matched]:
    """The verdicts on figures with noise depend on how many there are."""
    estimates = [one.difference.estimate for one in matched]
    p_values = [e.p_value for e in estimates if e.p_value is not None]
    beyond = iter(statistic.beyond_noise(p_values))
    found = []
    for one, estimate in zip(matched, estimates, strict=True):
        if estimate.p_value is None:
            found.append(one)
        else:
            verdict = judged(one.difference, one.key.metric, next(beyond))
            found.append(replace(one, difference=verdict))
    return found


def _largest_first(one: Matched) -> tuple[str, str, float, str]:
    key, before = one.key, one.difference.before
    return key.metric.name, str(key.evidence), -before.typical * before.count, str(key.kernel)


def _unmatched(ours: Side, theirs: Side) -> Iterator[Unmatched]:
    levels: dict[tuple[Kernel, Metric], list[str]] = defaultdict(list)
    for key in theirs.runs:
        levels[key.kernel, key.metric].append(str(key.evidence))
    for key, runs in ours.runs.items():
        if key not in theirs.runs:
            values = [value for run in runs for value in run]
            yield Unmatched(
                key=key,
                count=len(values),
                typical=statistic.typical(values),
                where=ours.where[key],
                elsewhere=tuple(levels[key.kernel, key.metric]),
            )


def _paths(runs: Sequence[Measurements]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(run.path for run in runs))


def _remarks(before: Sequence[Measurements], after: Sequence[Measurements]) -> Iterator[str]:
    yield from dict.fromkeys(remark for run in (*before, *after) for remark in run.remarks)
    if min(len(before), len(after)) == 1 and any(
        key.has_noise for run in (*before, *after) for key in run.series
    ):
        yield "one run on a side: what differs from run to run is not in the intervals"
    for name, meaning in MEANING.items():
        told = [
            " | ".join(dict.fromkeys(getattr(run.conditions, name).strip() for run in side))
            for side in (before, after)
        ]
        if told[0] != told[1] and all(told):
            yield f"{meaning} differs: {told[0]} -> {told[1]}"
