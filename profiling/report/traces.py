"""Traces: one timeline each."""

from __future__ import annotations

from collections.abc import Iterator

from profiling import analysis
from profiling.records import Profile, Trace
from profiling.report.plots.timeline import timeline
from profiling.report.view import Grid, Section, limited, number_cell, text_cell

#: Traces that get a timeline, the longest files first; a tree of the vendor's simulator has one
#: for each core beside one of all.
MOST_TRACES = 4


def trace_sections(profile: Profile, most: int) -> Iterator[Section]:
    """A section for each of the traces with the most spans."""
    traces = sorted(profile.traces, key=lambda trace: -len(trace.spans))
    for place, trace in enumerate(traces[:MOST_TRACES]):
        plot = timeline(trace, f"timeline-{place}")
        more = len(traces) - MOST_TRACES
        yield Section(
            anchor=f"timeline-{place}",
            title="Timeline",
            lead=f"{more} traces with fewer spans have no timeline here." if more > 0 else "",
            sentences=tuple(analysis.trace_sentences(trace)),
            plots=() if plot is None else (plot,),
            grids=(_tracks(trace, most),),
        )


def _tracks(trace: Trace, most: int) -> Grid:
    rows = [
        (
            text_cell(total.process),
            text_cell(total.track),
            number_cell(total.spans),
            number_cell(total.total),
            number_cell(total.share, f"{total.share:.1%}"),
        )
        for total in analysis.track_totals(trace)
    ]
    kept, left_out = limited(rows, most)
    return Grid(
        title="Tracks",
        columns=("process", "track", "spans", f"total, {trace.unit}", "share of all spans"),
        rows=kept,
        left_out=left_out,
        note=f"{trace.file}, {trace.evidence}; {trace.others:,} events without a duration.",
    )
