"""What can be said about the difference between two sets of samples, and what cannot."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from profiling.comparison import statistic
from profiling.comparison.measurement import Better, Key, Metric
from profiling.comparison.statistic import Estimate

#: A ratio whose whole interval is this close to one is called the same.
SAME_WITHIN = 0.01
_PLURALS = {"run": "s", "launch": "es"}


class Verdict(str, enum.Enum):
    """What can be said about a difference."""

    BETTER = "better"
    WORSE = "worse"
    DIFFERENT = "different"
    SAME = "same"
    NOISE = "within noise"
    NONE = "no verdict"

    def __str__(self) -> str:
        return self.value

    def word(self, metric: Metric) -> str:
        """As one says it of a time, or of a count."""
        improved, worsened = (
            ("faster", "slower")
            if metric.is_time
            else ("less", "more")
            if metric.better is Better.LESS
            else ("more", "less")
        )
        return {Verdict.BETTER: improved, Verdict.WORSE: worsened}.get(self, self.value)


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Samples in few numbers.

    Args:
        count: repetitions.
        of: what repeats, `run` or `launch`.
        typical: of times the geometric mean, of launches trimmed; of counts the mean.
        low, high: the smallest and the largest.
    """

    count: int
    of: str
    typical: float
    low: float
    high: float

    @property
    def repetitions(self) -> str:
        """Their number, as one says it."""
        return f"{self.count:,} {self.of}" + _PLURALS[self.of] * (self.count != 1)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Two sides of one figure, and by how much they differ.

    Args:
        before, after: the samples.
        estimate: after over before.
        verdict: what can be said.
        why: there is no more to say.
        is_real: whether it is more than noise, however small; a verdict may still be "same".
    """

    before: Spread
    after: Spread
    estimate: Estimate
    verdict: Verdict
    why: str = ""
    is_real: bool = False


#: The samples of one side, run by run.
Runs: TypeAlias = Sequence[Sequence[float]]


def difference(key: Key, before: Runs, after: Runs) -> Difference:
    """Both sides of one figure; of one with noise the verdict is still open, see `judged`.

    Raises:
        EnvironmentProblem: AI-BENCH-021, the figure has noise and scipy is missing.
    """
    return _measured(before, after) if key.has_noise else _counted(key.metric, before, after)


def _counted(metric: Metric, before: Runs, after: Runs) -> Difference:
    """Figures that are the same in every repetition: each difference is one."""
    first, second = _sequence(before), _sequence(after)
    spreads = _count_spread(first), _count_spread(second)
    ratio = spreads[1].typical / spreads[0].typical if spreads[0].typical else float("inf")
    if sorted(first) == sorted(second) or spreads[0].typical == spreads[1].typical == 0:
        return _difference(spreads, Estimate(ratio=1.0, low=1.0, high=1.0), Verdict.SAME)
    alike = all(spread.low == spread.high for spread in spreads)
    if len(first) != len(second) and not alike:
        return _difference(
            spreads,
            Estimate(ratio=ratio),
            Verdict.NONE,
            f"{len(first)} launches against {len(second)}, which do not all do the same work",
        )
    estimate = Estimate(ratio=ratio, low=ratio, high=ratio)
    found = _difference(spreads, estimate, _direction(metric, ratio))
    return replace(found, is_real=True)


def _measured(before: Runs, after: Runs) -> Difference:
    """Runs repeat where both sides have several, else launches.

    The launches of one run share its clock, its temperature and its neighbours.
    """
    several = min(len(before), len(after)) > 1
    first, second = (
        [statistic.typical(run) for run in side] if several else [x for run in side for x in run]
        for side in (before, after)
    )
    of, trim = ("run", statistic.WHOLE) if several else ("launch", statistic.TRIM)
    spreads = _spread(first, of, trim), _spread(second, of, trim)
    estimate = statistic.compare(first, second, trim)
    if estimate.p_value is None:
        few = " and ".join(
            f"{spread.repetitions} {side}"
            for side, spread in zip(("before", "after"), spreads, strict=True)
        )
        return _difference(spreads, estimate, Verdict.NONE, f"{few}: the noise is not known")
    return _difference(spreads, estimate, Verdict.NOISE)


def judged(open_one: Difference, metric: Metric, is_real: bool) -> Difference:
    """The verdict on a difference of figures with noise; is_real: whether it is beyond that."""
    estimate = open_one.estimate
    low, high = estimate.low, estimate.high
    if low is None or high is None:
        verdict = Verdict.NONE
    elif low >= 1 - SAME_WITHIN and high <= 1 + SAME_WITHIN:
        verdict = Verdict.SAME
    else:
        verdict = _direction(metric, estimate.ratio) if is_real else Verdict.NOISE
    return replace(open_one, verdict=verdict, is_real=is_real)


def _direction(metric: Metric, ratio: float) -> Verdict:
    if metric.better is Better.UNKNOWN or ratio == 1:
        # The same on average, and not launch by launch.
        return Verdict.DIFFERENT
    return Verdict.BETTER if (ratio < 1) == (metric.better is Better.LESS) else Verdict.WORSE


def _sequence(runs: Runs) -> list[float]:
    """The launches of a side: of equal runs, those of one."""
    distinct = dict.fromkeys(tuple(run) for run in runs)
    return [value for run in distinct for value in run]


def _count_spread(values: Sequence[float]) -> Spread:
    mean = float(np.mean(values))
    return Spread(count=len(values), of="launch", typical=mean, low=min(values), high=max(values))


def _spread(values: Sequence[float], of: str, trim: float) -> Spread:
    return Spread(
        count=len(values),
        of=of,
        typical=statistic.typical(values, trim),
        low=min(values),
        high=max(values),
    )


def _difference(
    spreads: tuple[Spread, Spread], estimate: Estimate, verdict: Verdict, why: str = ""
) -> Difference:
    before, after = spreads
    return Difference(before=before, after=after, estimate=estimate, verdict=verdict, why=why)
