"""Profiles and ledgers beside each other: ratios with their noise, and a gate for CI.

before, after = load([Path("OPPROF_1")]), load([Path("OPPROF_2")])
comparison = compare(before, after)
judge(comparison, threshold=0.05).passed
"""

from __future__ import annotations

from profiling.comparison.baseline import NoBaseline
from profiling.comparison.comparing import Comparison, Matched, Unmatched, compare
from profiling.comparison.gate import Finding, Gate, State, judge
from profiling.comparison.loading import load
from profiling.comparison.measurement import Better, Kernel, Key, Measurements, Metric
from profiling.comparison.statistic import STATISTIC, Estimate
from profiling.comparison.verdict import SAME_WITHIN, Difference, Spread, Verdict

__all__ = [
    "SAME_WITHIN",
    "STATISTIC",
    "Better",
    "Comparison",
    "Difference",
    "Estimate",
    "Finding",
    "Gate",
    "Kernel",
    "Key",
    "Matched",
    "Measurements",
    "Metric",
    "NoBaseline",
    "Spread",
    "State",
    "Unmatched",
    "Verdict",
    "compare",
    "judge",
    "load",
]
