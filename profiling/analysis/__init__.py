"""What the figures of a profile mean: totals, shares, and sentences that cite their figures."""

from __future__ import annotations

from profiling.analysis.kernel_sentences import kernel_sentences
from profiling.analysis.operators import OperatorTotal, operator_totals
from profiling.analysis.pipes import CoreTime, PipeUse, core_times, pipe_use
from profiling.analysis.sentence import Sentence
from profiling.analysis.steps import Gap, StepUse, step_use
from profiling.analysis.task_sentences import step_sentences, task_sentences
from profiling.analysis.tracks import TrackTotal, track_totals

__all__ = [
    "CoreTime",
    "Gap",
    "OperatorTotal",
    "PipeUse",
    "Sentence",
    "StepUse",
    "TrackTotal",
    "core_times",
    "kernel_sentences",
    "operator_totals",
    "pipe_use",
    "step_sentences",
    "step_use",
    "task_sentences",
    "track_totals",
]
