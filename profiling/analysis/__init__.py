"""What the figures of a profile mean: totals, shares, and sentences that cite their figures."""

from __future__ import annotations

from profiling.analysis.operators import OperatorTotal, operator_totals
from profiling.analysis.pipes import CoreTime, PipeUse, core_times, pipe_use

__all__ = ["CoreTime", "OperatorTotal", "PipeUse", "core_times", "operator_totals", "pipe_use"]
