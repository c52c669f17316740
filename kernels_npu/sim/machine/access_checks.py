"""Builds the check of a site: races and uninitialised bytes, on the ranges that it touches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernels_npu.sim.config import Checks
from kernels_npu.sim.machine.block_state import BlockState
from kernels_npu.sim.machine.findings import ERROR, Finding
from kernels_npu.sim.machine.instruction import AnyArray
from kernels_npu.sim.machine.operands import View
from kernels_npu.sim.machine.shadow import CORES, Cell, ShadowMemory
from kernels_npu.sim.machine.sites import Footprint, Site

Touched = list[tuple["_Range", Cell]]


@dataclass(eq=False)
class _Range:
    """A footprint with everything about it that does not change between executions.

    fixed: its cell, when the range is a constant. address, size: start and element size in bytes.
    """

    footprint: Footprint
    write: bool
    tensor: int
    shadow: ShadowMemory | None
    address: int
    size: int
    rows: int
    row_bytes: int
    pitch: int
    fixed: Cell | None = None


class SiteCheck:
    """Checks one site on one core; call `run`.

    Without run-time ranges `run()`. Else the arguments are, per run-time footprint in order, an element
    offset (on chip) or (element offset, rows, columns, pitch) in a global tensor; for a store to global
    memory, last, the clipped shape of the moved rectangle.
    """

    def __init__(
        self, state: BlockState, core: int, site: Site, checks: Checks, item_sizes: tuple[int, ...]
    ) -> None:
        self.state = state
        self.core = core
        self.site = site
        self.agent = state.monitor.agent(core, site.pipe)
        self.races = checks.races
        self.uninitialised = checks.uninitialised
        self.ranges = [self._range(f, item_sizes) for f in site.footprints]
        self.stores = bool(site.gm_path) and any(r.shadow and not r.write for r in self.ranges)
        constant = not self.stores and all(r.fixed is not None for r in self.ranges)
        self._constant: Touched = [(r, r.fixed) for r in self.ranges if r.fixed is not None]
        self.run: Callable[..., None] = self._run_constant if constant else self._run_dynamic

    def _range(self, footprint: Footprint, item_sizes: tuple[int, ...]) -> _Range:
        view = footprint.view
        if not isinstance(view, View):
            size = item_sizes[footprint.tensor]
            return _Range(footprint, footprint.write, footprint.tensor, None, 0, size, 0, 0, 0)
        size = view.itemsize
        shadow = self.state.on_chip[(self.core, view.memory)]
        rows, row_bytes, pitch = view.rows, view.cols * size, view.pitch * size
        found = _Range(
            footprint, footprint.write, -1, shadow, footprint.address, size, rows, row_bytes, pitch
        )
        if footprint.fixed:
            start = footprint.address + int(view.offset.value) * size  # type: ignore[attr-defined]
            found.address = start
            found.fixed = shadow.cell(start, rows, row_bytes, pitch)
        return found

    # ------------------------------------------------------------------ hot path

    def _run_constant(self) -> None:
        self._check(self._constant)

    def _run_dynamic(self, *values: Any) -> None:
        clip = values[-1] if self.stores else None
        position = 0
        touched: Touched = []
        for item in self.ranges:
            shadow = item.shadow
            if shadow is None:
                offset, rows, cols, pitch = values[position]
                position += 1
                if rows == 0 or cols == 0:
                    continue
                gm_shadow, base = self.state.gm_shadow(item.tensor)
                size = item.size
                start = base + offset * size
                touched.append((item, gm_shadow.cell(start, rows, cols * size, pitch * size)))
                continue
            fixed = item.fixed
            start = item.address
            if fixed is None:
                start += values[position] * item.size
                position += 1
            if clip is not None and not item.write:
                rows, cols = clip
                if rows == 0 or cols == 0:
                    continue
                touched.append((item, shadow.cell(start, rows, cols * item.size, item.pitch)))
            elif fixed is not None:
                touched.append((item, fixed))
            else:
                touched.append((item, shadow.cell(start, item.rows, item.row_bytes, item.pitch)))
        self._check(touched)

    def _check(self, touched: Touched) -> None:
        if self.races:
            monitor, agent, index = self.state.monitor, self.agent, self.site.index
            for item, cell in touched:
                if item.write:
                    monitor.write(agent, cell, index)
                else:
                    monitor.read(agent, cell, index)
        if self.uninitialised:
            serial = self.state.serial
            for _, cell in touched:
                if cell.written_in != serial:
                    self._track_written(touched)
                    return

    # ------------------------------------------------------------------ written bytes

    def _track_written(self, touched: Touched) -> None:
        """Some range is not yet known to be written in this block."""
        serial = self.state.serial
        unwritten = [
            (item, cell)
            for item, cell in touched
            if item.shadow is not None
            and not item.write
            and not item.shadow.is_written(cell, serial)
        ]
        if unwritten and self.stores:
            self._report(unwritten[0][0].footprint)
        for item, cell in touched:
            if not item.write:
                continue
            if unwritten and item.shadow is not None and self._taints():
                self._write_partly(item, cell, touched)
            elif cell.written_in != serial:
                cell.written_in = serial
                if item.shadow is not None and item.shadow.by_bits:
                    item.shadow.bits(cell, serial)[...] = True

    def _taints(self) -> bool:
        instruction = self.site.instruction
        return instruction is not None and instruction.taint is not None

    def _write_partly(self, item: _Range, cell: Cell, touched: Touched) -> None:
        """The result is written only where its sources are."""
        instruction = self.site.instruction
        assert instruction is not None and instruction.taint is not None and item.shadow is not None
        view = item.footprint.view
        assert isinstance(view, View)
        sources = [self._element_bits(r, c) for r, c in touched if not r.write and r.shadow]
        shape = (view.cols,) if view.flat else (view.rows, view.cols)
        result = np.asarray(instruction.taint(sources, shape)).reshape(view.rows, view.cols)
        serial = self.state.serial
        if result.all():
            cell.written_in = serial
            if item.shadow.by_bits:
                item.shadow.bits(cell, serial)[...] = True
            return
        item.shadow.switch_to_bits(serial)
        target = item.shadow.bits(cell, serial)
        target[...] = np.repeat(result, view.itemsize, axis=1).reshape(target.shape)
        for other in cell.overlaps:
            other.written_in = -1

    def _element_bits(self, item: _Range, cell: Cell) -> AnyArray:
        view = item.footprint.view
        assert isinstance(view, View) and item.shadow is not None
        elements = item.shadow.bits(cell, self.state.serial)[:, :: view.itemsize]
        return elements.reshape(-1) if view.flat else elements.reshape(view.rows, view.cols)

    def _report(self, footprint: Footprint) -> None:
        launch = self.state.launch
        assert launch is not None
        name = footprint.view.buffer.name
        key = ("init", self.site.stmt.loc, self.core > 0)
        if launch.log.seen(key):
            return
        launch.log.add(
            key,
            Finding(
                code="AI-INIT-001",
                severity=ERROR,
                message=f"bytes of {name} that were never written reach global memory "
                f"(block {self.state.block}, {CORES[self.core]})",
                kernel=launch.kernel,
                loc=self.site.stmt.loc,
                fix=f"fill or load all of {name} that is stored, or store less of it",
            ),
        )
