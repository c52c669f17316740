"""Checks of a `T.Parallel` statement: races on its boxes, uninitialised bytes per element."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels_npu.sim.config import Checks
from kernels_npu.sim.dtypes import bytes_of
from kernels_npu.sim.machine.access_checks import report_unwritten
from kernels_npu.sim.machine.block_state import BlockState
from kernels_npu.sim.machine.instruction import AnyArray
from kernels_npu.sim.machine.operands import View, shape_of, strides_of
from kernels_npu.sim.machine.parallel_runtime import Index
from kernels_npu.sim.machine.shadow import Cell, ShadowMemory
from kernels_npu.sim.machine.sites import Footprint, Site

#: (first element, rows, columns, pitch), or the shape of the buffer for an access that is no box.
Span = tuple[int, int, int, int]
Place = tuple[bool, tuple[int, ...]]


class ParallelCheck:
    """Checks one statement on one core; call `run`.

    Its arguments are, per access, (whether it is a box, the span or else the buffer's shape) and
    the index; then the mask.
    """

    def __init__(self, state: BlockState, core: int, site: Site, checks: Checks) -> None:
        self.state = state
        self.core = core
        self.site = site
        self.number = state.first_core + core
        self.agent = state.monitor.agent(self.number, site.pipe)
        self.scalar = site.pipe == "S"
        self.races = checks.races
        self.uninitialised = checks.uninitialised

    def run(
        self, places: tuple[Place, ...], indices: tuple[Index, ...], mask: AnyArray | None
    ) -> None:
        """One execution of the statement."""
        touched: list[tuple[Footprint, ShadowMemory, Cell, Index, bool]] = []
        for footprint, (is_box, place), index in zip(self.site.footprints, places, indices):
            memory, base, size = self._place(footprint)
            exact = is_box and mask is None
            span = place if is_box else _bounds(index, place, mask if footprint.write else None)
            if span is None:
                continue
            start, rows, cols, pitch = span
            cell = memory.cell(base + start * size, rows, cols * size, pitch * size)
            touched.append((footprint, memory, cell, index, exact))
        if self.races:
            self._check_races(touched)
        if self.uninitialised:
            self._track(touched, mask)

    def _place(self, footprint: Footprint) -> tuple[ShadowMemory, int, int]:
        """Shadow, first byte and element size of an access' buffer."""
        view = footprint.view
        size = bytes_of(view.buffer.dtype)
        if isinstance(view, View):
            return self.state.on_chip[(self.core, view.memory)], footprint.address, size
        memory, base = self.state.group.gm_shadow(footprint.tensor)
        return memory, base, size

    def _check_races(
        self, touched: list[tuple[Footprint, ShadowMemory, Cell, Index, bool]]
    ) -> None:
        monitor = self.state.monitor
        monitor.changes[self.number] += 1
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
            memory.lose(cell)

    def _first_bytes(self, footprint: Footprint, index: Index) -> AnyArray:
        """Address of the first byte of every element that an access names."""
        _, base, size = self._place(footprint)
        shape = shape_of(footprint.view.buffer, self.site.stmt.loc)
        count = int(np.prod(shape, dtype=np.int64))
        return np.asarray(base + np.arange(count).reshape(shape)[index] * size)


def _bounds(index: Index, shape: tuple[int, ...], mask: AnyArray | None) -> Span | None:
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
