"""Builds the check of a site: races and uninitialised bytes, on the ranges that it touches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kernels_npu.sim.config import Checks
from kernels_npu.sim.machine.block_state import BlockState
from kernels_npu.sim.machine.findings import ERROR, Finding
from kernels_npu.sim.machine.instruction import AnyArray
from kernels_npu.sim.machine.operands import Rect, View
from kernels_npu.sim.machine.shadow import CORES, Cell, ShadowMemory
from kernels_npu.sim.machine.sites import Footprint, Site

Range = tuple[int, int, int, int]  # element offset, rows, cols, pitch


class SiteCheck:
    """Checks one site on one core. `fixed()` when all its ranges are constants, else `dynamic(...)`.

    Dynamic arguments are, per run-time footprint in order, an element offset (on chip) or a range
    (global memory); for a store to global memory, last, the clipped shape of the moved rectangle.
    """

    def __init__(self, state: BlockState, core: int, site: Site, checks: Checks) -> None:
        self.state = state
        self.core = core
        self.site = site
        self.monitor = state.monitor
        self.agent = state.monitor.agent(core, site.pipe)
        self.races = checks.races
        self.uninitialised = checks.uninitialised
        views = [f for f in site.footprints if isinstance(f.view, View)]
        self.stores = bool(site.gm_path) and any(not f.write for f in views)
        self._fixed_cells = {
            id(f): self._cell(f, int(f.view.offset.value), f.view.rows, f.view.cols)  # type: ignore[union-attr]
            for f in views
            if f.fixed
        }
        self._reads = [self._fixed_cells.get(id(f)) for f in site.footprints if not f.write]
        self._writes = [self._fixed_cells.get(id(f)) for f in site.footprints if f.write]
        shared = not self.stores and all(f.fixed for f in site.footprints)
        self.run: Callable[..., None] = self.fixed if shared else self.dynamic

    def _shadow(self, footprint: Footprint) -> ShadowMemory:
        assert isinstance(footprint.view, View)
        return self.state.on_chip[(self.core, footprint.view.memory)]

    def _cell(self, footprint: Footprint, offset: int, rows: int, cols: int) -> Cell:
        view = footprint.view
        assert isinstance(view, View)
        size = view.itemsize
        start = footprint.address + offset * size
        return self._shadow(footprint).cell(start, rows, cols * size, view.pitch * size)

    def fixed(self) -> None:
        """Check with the ranges known beforehand."""
        self._check(self._reads, self._writes)  # type: ignore[arg-type]

    def dynamic(self, *values: Any) -> None:
        """Check with run-time ranges."""
        clip = values[-1] if self.stores else None
        position = 0
        reads: list[Cell] = []
        writes: list[Cell] = []
        for footprint in self.site.footprints:
            view = footprint.view
            if isinstance(view, Rect):
                cell = self._gm_cell(footprint, values[position])
                position += 1
                if cell is None:
                    continue
            else:
                if footprint.fixed:
                    offset = int(view.offset.value)  # type: ignore[attr-defined]
                else:
                    offset = values[position]
                    position += 1
                if clip is not None and not footprint.write:
                    rows, cols = clip
                    if rows == 0 or cols == 0:
                        continue
                    cell = self._cell(footprint, offset, rows, cols)
                elif footprint.fixed:
                    cell = self._fixed_cells[id(footprint)]
                else:
                    cell = self._cell(footprint, offset, view.rows, view.cols)
            (writes if footprint.write else reads).append(cell)
        self._check(reads, writes)

    def _gm_cell(self, footprint: Footprint, where: Range) -> Cell | None:
        offset, rows, cols, pitch = where
        if rows == 0 or cols == 0:
            return None
        shadow, base = self.state.gm_shadow(footprint.tensor)
        size = self.item_sizes[footprint.tensor]
        return shadow.cell(base + offset * size, rows, cols * size, pitch * size)

    #: bytes per element of each tensor parameter; set by the binder
    item_sizes: tuple[int, ...] = ()

    def _check(self, reads: list[Cell], writes: list[Cell]) -> None:
        if self.races:
            monitor, agent, index = self.monitor, self.agent, self.site.index
            for cell in reads:
                monitor.read(agent, cell, index)
            for cell in writes:
                monitor.write(agent, cell, index)
        if self.uninitialised:
            serial = self.state.serial
            for cell in reads:
                if cell.written_in != serial:
                    self._initialisation(reads, writes)
                    return
            for cell in writes:
                if cell.written_in != serial:
                    self._initialisation(reads, writes)
                    return

    # ------------------------------------------------------------------ uninitialised bytes

    def _initialisation(self, reads: list[Cell], writes: list[Cell]) -> None:
        """The slow path: some range was not yet known to be written in this block."""
        serial = self.state.serial
        on_chip_reads = [
            (f, c) for f, c in self._paired(reads, write=False) if isinstance(f.view, View)
        ]
        clean = True
        for footprint, cell in on_chip_reads:
            if cell.written_in == serial:
                continue
            if self._shadow(footprint).bits(cell).all():
                cell.written_in = serial
            else:
                clean = False
        if not clean and self.stores:
            self._report(next(f for f, c in on_chip_reads if c.written_in != serial))
        for footprint, cell in self._paired(writes, write=True):
            if isinstance(footprint.view, Rect):
                cell.written_in = serial
                continue
            self._mark(footprint, cell, on_chip_reads, clean)

    def _paired(self, cells: list[Cell], *, write: bool) -> list[tuple[Footprint, Cell]]:
        footprints = [f for f in self.site.footprints if f.write is write]
        return list(zip(footprints, cells))

    def _mark(
        self, footprint: Footprint, cell: Cell, reads: list[tuple[Footprint, Cell]], clean: bool
    ) -> None:
        serial = self.state.serial
        shadow = self._shadow(footprint)
        instruction = self.site.instruction
        taint = instruction.taint if instruction is not None else None
        if clean or taint is None:
            if cell.written_in != serial:
                shadow.bits(cell)[...] = True
                cell.written_in = serial
            return
        view = footprint.view
        assert isinstance(view, View)
        sources = [self._element_bits(f, c) for f, c in reads]
        shape = (view.cols,) if view.flat else (view.rows, view.cols)
        result = np.asarray(taint(sources, shape)).reshape(view.rows, view.cols)
        bits = np.repeat(result, view.itemsize, axis=1)
        target = shadow.bits(cell)
        target[...] = bits.reshape(target.shape)
        if result.all():
            cell.written_in = serial
        else:
            for other in cell.overlaps:
                other.written_in = -1

    def _element_bits(self, footprint: Footprint, cell: Cell) -> AnyArray:
        view = footprint.view
        assert isinstance(view, View)
        elements = self._shadow(footprint).bits(cell)[:, :: view.itemsize]
        return elements.reshape(-1) if view.flat else elements.reshape(view.rows, view.cols)

    def _report(self, footprint: Footprint) -> None:
        launch = self.state.launch
        assert launch is not None
        view = footprint.view
        key = ("init", self.site.stmt.loc, self.core > 0)
        if launch.log.seen(key):
            return
        launch.log.add(
            key,
            Finding(
                code="AI-INIT-001",
                severity=ERROR,
                message=f"bytes of {view.buffer.name} that were never written reach global memory "
                f"(block {self.state.block}, {CORES[self.core]})",
                kernel=launch.kernel,
                loc=self.site.stmt.loc,
                fix=f"fill or load all of {view.buffer.name} that is stored, or store less of it",
            ),
        )
