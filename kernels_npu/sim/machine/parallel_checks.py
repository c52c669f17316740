"""Checks of a `T.Parallel` statement: races on the boxes it touches, uninitialised bytes per element."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels_npu.sim.config import Checks
from kernels_npu.sim.machine.access_checks import report_unwritten
from kernels_npu.sim.machine.block_state import BlockState
from kernels_npu.sim.machine.instruction import AnyArray
from kernels_npu.sim.machine.operands import View, shape_of, strides_of
from kernels_npu.sim.machine.parallel_runtime import Index
from kernels_npu.sim.machine.shadow import Cell, ShadowMemory
from kernels_npu.sim.machine.sites import Footprint, Site

#: (first element, rows, columns, pitch), or None for an access that is no box.
Span = tuple[int, int, int, int] | None


class ParallelCheck:
    """Checks one statement on one core; call `run` with the spans, indices and mask of its accesses."""

    def __init__(
        self, state: BlockState, core: int, site: Site, checks: Checks, item_sizes: tuple[int, ...]
    ) -> None:
        self.state = state
        self.core = core
        self.site = site
        self.agent = state.monitor.agent(state.first_core + core, site.pipe)
        self.scalar = site.pipe == "S"
        self.races = checks.races
        self.uninitialised = checks.uninitialised
        self.item_sizes = item_sizes

    def run(
        self, spans: tuple[Span, ...], indices: tuple[Index, ...], mask: AnyArray | None
    ) -> None:
        """One execution of the statement."""
        touched: list[tuple[Footprint, ShadowMemory, Cell, Index, bool]] = []
        for footprint, span, index in zip(self.site.footprints, spans, indices):
            memory, base, size, shape = self._place(footprint)
            exact = span is not None and mask is None
            if span is None:
                span = _bounds(index, shape, mask if footprint.write else None)
                if span is None:
                    continue
            start, rows, cols, pitch = span
            cell = memory.cell(base + start * size, rows, cols * size, pitch * size)
            touched.append((footprint, memory, cell, index, exact))
        if self.races:
            self._check_races(touched)
        if self.uninitialised:
            self._track(touched, mask)

    def _place(self, footprint: Footprint) -> tuple[ShadowMemory, int, int, tuple[int, ...]]:
        """Shadow, first byte, element size and shape of an access' buffer."""
        view = footprint.view
        if isinstance(view, View):
            memory = self.state.on_chip[(self.core, view.memory)]
            shape = shape_of(view.buffer, self.site.stmt.loc)
            return memory, footprint.address, view.itemsize, shape
        memory, base = self.state.group.gm_shadow(footprint.tensor)
        shape = self.state.launch.tensor_shapes[footprint.tensor]
        return memory, base, self.item_sizes[footprint.tensor], shape

    def _check_races(
        self, touched: list[tuple[Footprint, ShadowMemory, Cell, Index, bool]]
    ) -> None:
        monitor = self.state.monitor
        for footprint, memory, cell, _, _ in touched:
            if footprint.tensor < 0:
                if self.state.auto_sync:
                    continue
                if memory.elements is not None:
                    monitor.against_elements(
                        self.agent, memory.elements, cell, self.site.index, write=footprint.write
                    )
            if footprint.write:
                monitor.write(self.agent, cell, self.site.index)
            else:
                monitor.read(self.agent, cell, self.site.index)

    # ------------------------------------------------------------------ written bytes

    def _track(
        self,
        touched: list[tuple[Footprint, ShadowMemory, Cell, Index, bool]],
        mask: AnyArray | None,
    ) -> None:
        serial = self.state.serial
        known: AnyArray | bool = True
        for footprint, memory, cell, index, _ in touched:
            if footprint.write or footprint.tensor >= 0 or memory.is_written(cell, serial):
                continue
            bits = memory.byte_bits(serial)
            known = known & bits[self._first_bytes(footprint, index)]
        for footprint, memory, cell, index, exact in touched:
            if not footprint.write:
                continue
            if footprint.tensor >= 0:
                wanted = known if mask is None else known | ~mask
                if not np.all(wanted):
                    unwritten = next(f for f, *_ in touched if not f.write and f.tensor < 0)
                    report_unwritten(self.state, self.core, self.site, unwritten)
            elif exact and known is True:
                memory.mark(cell, serial)
            else:
                self._mark_elements(footprint, memory, cell, index, known, mask)

    def _mark_elements(
        self,
        footprint: Footprint,
        memory: ShadowMemory,
        cell: Cell,
        index: Index,
        known: AnyArray | bool,
        mask: AnyArray | None,
    ) -> None:
        bits = memory.byte_bits(self.state.serial)
        first = self._first_bytes(footprint, index)
        masked = () if mask is None else mask.shape
        shape = np.broadcast_shapes(first.shape, np.shape(known), masked)
        places, values = np.broadcast_to(first, shape), np.broadcast_to(known, shape)
        if mask is not None:
            chosen = np.broadcast_to(mask, shape)
            places, values = places[chosen], values[chosen]
        view = footprint.view
        assert isinstance(view, View)
        for byte in range(view.itemsize):
            bits[places + byte] = values
        if not np.all(values):
            for other in cell.overlaps:
                other.written_in = -1

    def _first_bytes(self, footprint: Footprint, index: Index) -> AnyArray:
        """Address of the first byte of every element that an access names."""
        _, base, size, shape = self._place(footprint)
        count = int(np.prod(shape, dtype=np.int64))
        return np.asarray(base + np.arange(count).reshape(shape)[index] * size)


def _bounds(index: Index, shape: tuple[int, ...], mask: AnyArray | None) -> Span:
    """The run from the first to the last element that an access names; None when it names none."""
    flat: Any = 0
    for position, stride in zip(index, strides_of(shape)):
        flat = flat + np.asarray(position) * stride
    if mask is not None:
        full = np.broadcast_shapes(np.shape(flat), mask.shape)
        flat = np.broadcast_to(flat, full)[np.broadcast_to(mask, full)]
    if np.size(flat) == 0:
        return None
    first, last = int(np.min(flat)), int(np.max(flat))
    return first, 1, last - first + 1, last - first + 1
