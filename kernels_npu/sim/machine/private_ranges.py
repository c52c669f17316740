"""On-chip ranges that one pipe alone touches: a pipe executes in order, so they have no races."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from kernels_npu.sim import ir
from kernels_npu.sim.dtypes import bytes_of
from kernels_npu.sim.machine.operands import View, shape_of
from kernels_npu.sim.machine.sites import Footprint, Site

#: Beyond the end of every memory.
_END = 1 << 40


def private_footprints(sites: Iterable[Site], *, bounds_checked: bool) -> frozenset[int]:
    """Ids of the on-chip footprints whose bytes no other pipe of the core touches.

    bounds_checked: a range with a run-time start stays in its buffer; else it may be anywhere.
    """
    spans = [
        (footprint, site.pipe, *_span(footprint, site, bounds_checked))
        for site in sites
        for footprint in site.footprints
        if isinstance(footprint.view, View)
    ]
    touched: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for footprint, pipe, memory, start, stop in spans:
        if not footprint.data_only:
            touched.setdefault((memory, pipe), []).append((start, stop))
    unions = {key: _union(intervals) for key, intervals in touched.items()}
    return frozenset(
        id(footprint)
        for footprint, pipe, memory, start, stop in spans
        if not any(
            memory == other_memory and pipe != other_pipe and _meets(union, start, stop)
            for (other_memory, other_pipe), union in unions.items()
        )
    )


def _union(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same bytes as intervals in order that do not touch each other."""
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], stop))
        else:
            merged.append((start, stop))
    return merged


def _meets(union: list[tuple[int, int]], start: int, stop: int) -> bool:
    last = bisect_left(union, (stop, stop)) - 1
    return last >= 0 and union[last][1] > start


def _span(footprint: Footprint, site: Site, bounds_checked: bool) -> tuple[str, int, int]:
    """Memory, first byte and end of everything that the footprint may name."""
    view = footprint.view
    assert isinstance(view, View)
    if view.overruns:
        return view.memory, footprint.address, _END
    if isinstance(view.offset, ir.Const) and not site.parallel:
        start = footprint.address + int(view.offset.value) * view.itemsize
        elements = (view.rows - 1) * view.pitch + view.cols
        return view.memory, start, start + elements * view.itemsize
    if not bounds_checked:
        return view.memory, 0, _END
    elements = 1
    for size in shape_of(view.buffer, site.stmt.loc):
        elements *= size
    return (
        view.memory,
        footprint.address,
        footprint.address + elements * bytes_of(view.buffer.dtype),
    )
