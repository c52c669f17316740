"""What the figures of a profile mean: totals, shares, and sentences that cite their figures."""

from __future__ import annotations

from profiling.analysis.chips import chip_of
from profiling.analysis.graphs import eager_against_graph
from profiling.analysis.kernel_sentences import kernel_sentences
from profiling.analysis.kernel_totals import (
    KernelTotal,
    kernel_totals,
    longest_launches,
    profile_sentences,
)
from profiling.analysis.operators import OperatorTotal, operator_totals
from profiling.analysis.overlap import Overlap, overlaps, trace_sentences
from profiling.analysis.pipes import CoreTime, PipeUse, core_times, pipe_use
from profiling.analysis.roofline import Ceiling, Roofline, roofline_of
from profiling.analysis.sentence import Sentence
from profiling.analysis.steps import Gap, StepUse, step_use
from profiling.analysis.task_sentences import step_sentences, task_sentences
from profiling.analysis.tracks import TrackTotal, track_totals
from profiling.analysis.traffic import Traffic, traffic_of

__all__ = [
    "Ceiling",
    "CoreTime",
    "Gap",
    "KernelTotal",
    "OperatorTotal",
    "Overlap",
    "PipeUse",
    "Roofline",
    "Sentence",
    "StepUse",
    "TrackTotal",
    "Traffic",
    "chip_of",
    "core_times",
    "eager_against_graph",
    "kernel_sentences",
    "kernel_totals",
    "longest_launches",
    "operator_totals",
    "overlaps",
    "pipe_use",
    "profile_sentences",
    "roofline_of",
    "step_sentences",
    "step_use",
    "task_sentences",
    "trace_sentences",
    "track_totals",
    "traffic_of",
]
