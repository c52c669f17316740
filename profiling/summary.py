"""Statistics of repeated measurements that do not claim more than the samples hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels_npu.errors import UsageError

#: Samples that must lie beyond a quantile before it is reported: with fewer, it is one outlier.
SAMPLES_BEYOND = 5
QUANTILES = (0.9, 0.95, 0.99)


def samples_needed(quantile: float) -> int:
    """How many samples a quantile takes: 50 for p90, 100 for p95, 500 for p99."""
    return math.ceil(round(SAMPLES_BEYOND / (1 - quantile), 9))


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Samples in one number each, all in `unit`.

    quantiles: by quantile; None where there are too few samples to tell.
    """

    unit: str
    count: int
    mean: float
    median: float
    low: float
    high: float
    deviation: float
    quantiles: dict[float, float | None]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready fields; a quantile that cannot be told is null."""
        named = {f"p{100 * q:g}": value for q, value in self.quantiles.items()}
        fields = ("unit", "count", "mean", "median", "low", "high", "deviation")
        return {name: getattr(self, name) for name in fields} | named


def summarise(
    samples: Sequence[float] | NDArray[np.float64],
    unit: str,
    quantiles: Sequence[float] = QUANTILES,
) -> Summary:
    """Mean, median, extremes and those quantiles that the number of samples allows.

    Raises:
        UsageError: AI-BENCH-001 without samples, or with one that is no number.
    """
    values = np.asarray(samples, dtype=np.float64)
    if values.size == 0 or not np.isfinite(values).all():
        what = "there are no samples" if values.size == 0 else "a sample is not a finite number"
        raise UsageError(
            "AI-BENCH-001",
            what,
            rule="statistics are of measurements that were made",
            fix="leave out failed measurements and count them, and measure at least once",
        )
    told = [q for q in quantiles if values.size >= samples_needed(q)]
    median, *found = np.quantile(values, [0.5, *told]).tolist()
    known = dict(zip(told, found))
    return Summary(
        unit=unit,
        count=int(values.size),
        mean=float(values.mean()),
        median=median,
        low=float(values.min()),
        high=float(values.max()),
        deviation=float(values.std(ddof=1)) if values.size > 1 else 0.0,
        quantiles={q: known.get(q) for q in quantiles},
    )
