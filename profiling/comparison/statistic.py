"""By how much two sets of samples differ, with the interval that their noise leaves open.

The logarithms of launches are compared by Yuen's test: means of what is left when the smallest and
the largest fifth are cut off, with variances of their own (Welch). So the result is a ratio, a
first slow launch does not decide, and with fewer than five samples it is Welch's test. Of runs
nothing is cut off: each is a typical value already, and three of five would be too few.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernels_npu.errors import EnvironmentProblem

#: Cut off at each end of launches, and of runs.
TRIM = 0.2
WHOLE = 0.0
CONFIDENCE = 0.95
#: Of the verdicts that are given, the share that may be wrong (Benjamini and Hochberg).
FALSE_DISCOVERIES = 0.05
STATISTIC = (
    f"ratio of geometric means without the smallest and largest {TRIM:.0%} of a run's launches; "
    f"{CONFIDENCE:.0%} interval by Yuen's test with Welch's variances, on logarithms; of the "
    f"verdicts given at most {FALSE_DISCOVERIES:.0%} are expected to be wrong (Benjamini-Hochberg)"
)


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The second set of samples over the first.

    low, high: the interval; None with fewer than two samples on a side. p_value: how probable so
    large a difference is if there is none; None likewise.
    """

    ratio: float
    low: float | None = None
    high: float | None = None
    p_value: float | None = None


def typical(samples: Sequence[float], trim: float = TRIM) -> float:
    """The trimmed geometric mean; of samples with a zero among them, the trimmed mean."""
    kept = _trimmed(np.asarray(samples, dtype=np.float64), trim)
    if kept[0] <= 0 or kept[0] == kept[-1]:
        return float(kept.mean())
    return float(np.exp(np.log(kept).mean()))


def compare(before: Sequence[float], after: Sequence[float], trim: float = TRIM) -> Estimate:
    """The ratio of two sets of positive samples, with the interval where both have two or more.

    trim: the share that is cut off at each end.

    Raises:
        EnvironmentProblem: AI-BENCH-021, scipy is missing.
    """
    ratio = typical(after, trim) / typical(before, trim)
    if min(len(before), len(after)) < 2:
        return Estimate(ratio=ratio)
    logs = [np.log(np.asarray(samples, dtype=np.float64)) for samples in (after, before)]
    if all(np.ptp(_trimmed(values, trim)) == 0 for values in logs):
        # The clock is coarser than the noise.
        return Estimate(ratio=ratio, low=ratio, high=ratio, p_value=float(ratio == 1))
    test = _scipy_stats().ttest_ind(*logs, equal_var=False, trim=trim)
    interval = test.confidence_interval(CONFIDENCE)
    low, high = np.exp([interval.low, interval.high])
    return Estimate(ratio=ratio, low=float(low), high=float(high), p_value=float(test.pvalue))


def beyond_noise(p_values: Sequence[float]) -> list[bool]:
    """Which differences are called ones, so that few of all verdicts are chance."""
    if not p_values:
        return []
    adjusted = _scipy_stats().false_discovery_control(p_values)
    return [bool(value < FALSE_DISCOVERIES) for value in adjusted]


def _trimmed(values: np.ndarray[Any, np.dtype[np.float64]], trim: float) -> Any:
    cut = int(trim * len(values))
    return np.sort(values)[cut : len(values) - cut]


def _scipy_stats() -> Any:
    try:
        from scipy import stats
    except ImportError as error:
        raise EnvironmentProblem(
            "AI-BENCH-021",
            "scipy is not installed",
            rule="measured times are compared by a test of scipy, which the extra `report` brings",
            fix="pip install scipy",
        ) from error
    return stats
