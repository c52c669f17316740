"""The check of a scalar access to an on-chip element, made for speed: loops are full of them."""

from __future__ import annotations

import numpy as np

from kernels_npu.sim.config import Checks
from kernels_npu.sim.machine.block_state import BlockState
from kernels_npu.sim.machine.element_trace import record_of
from kernels_npu.sim.machine.operands import View, shape_of
from kernels_npu.sim.machine.shadow import Cell
from kernels_npu.sim.machine.sites import Site


class ElementCheck:
    """Checks one access of the scalar unit to an on-chip element; call `run(offset)`.

    As long as nothing but element accesses happens on the core, what was found for one element
    without a hazard in its buffer holds for the whole buffer. Such accesses are only recorded.

    granule: size in bytes of the smallest element that the program touches in this way.
    """

    def __init__(
        self, state: BlockState, core: int, site: Site, checks: Checks, granule: int
    ) -> None:
        (footprint,) = site.footprints
        view = footprint.view
        assert isinstance(view, View)
        self.state = state
        self.number = state.first_core + core
        self.site = site.index
        self.write = footprint.write
        self.address = footprint.address
        self.size = view.itemsize
        self.shadow = state.on_chip[(core, view.memory)]
        self.agent = state.monitor.agent(self.number, "S")
        self.races = checks.races and not state.auto_sync
        self.marks = checks.uninitialised and footprint.write
        count = int(np.prod(shape_of(view.buffer, site.stmt.loc)))
        self.count = min(count, (self.shadow.size - self.address) // self.size)
        self.trace = self.shadow.trace(granule)
        self.records = self.trace.buffer(self.address, self.count, self.size, write=self.write)
        self.record = 0
        #: the monitor's count of changes when the buffer was found free of hazards
        self.clean_at = -1
        #: the memory's bits, and a view of them with one number per element of the buffer
        self._bits: object = None
        self._written = np.zeros(0, dtype=f"u{self.size}")
        #: block, and the memories' count of losses, when the whole buffer was found written
        self._whole = (-1, -1)
        self._all_written = int.from_bytes(b"\1" * self.size, "little")

    def run(self, offset: int, known: bool = True) -> None:
        """The scalar unit touches element `offset`; a stored value is `known` or garbage."""
        inside = 0 <= offset < self.count
        if self.races:
            if inside and self.clean_at == self.state.monitor.changes[self.number]:
                self.records[offset] = self.record
            else:
                self._check_race(offset, inside)
        if self.marks:
            if (
                known
                and inside
                and self._bits is not None
                and (self._bits is self.shadow.written_bits)
            ):
                self._written[offset] = self._all_written
            else:
                self._mark(offset, known)

    def _check_race(self, offset: int, inside: bool) -> None:
        start = self.address + offset * self.size
        monitor, shadow = self.state.monitor, self.shadow
        run = Cell(start, 1, self.size, 0)
        clock = monitor.touch_element(
            self.agent, shadow.at(start, start + self.size), run, self.site, write=self.write
        )
        if self.write:
            self.trace.last_write = clock
        else:
            self.trace.last_read = clock
        self.record = record_of(clock, self.site)
        if inside:
            self.records[offset] = self.record
        stop = self.address + self.count * self.size
        self.clean_at = monitor.clean_at(
            self.agent, shadow.at(self.address, stop), write=self.write
        )

    def _mark(self, offset: int, known: bool) -> None:
        start = self.address + offset * self.size
        shadow, serial = self.shadow, self.state.serial
        if not known:
            shadow.unmark(shadow.cell(start, 1, self.size, self.size), serial)
            return
        shadow.mark_run(start, start + self.size, serial)
        self._look_at_bits()

    def _look_at_bits(self) -> bool:
        """Whether the memory has bits; `_written` then shows the buffer's."""
        bits = self.shadow.written_bits
        if bits is not self._bits:
            self._bits = bits
            if bits is not None:
                stop = self.address + self.count * self.size
                self._written = bits[self.address : stop].view(self._written.dtype)
        return bits is not None

    def is_written(self, offset: int) -> bool:
        """Whether element `offset` of the buffer was written in this block."""
        if 0 <= offset < self.count and self._look_at_bits():
            return bool(self._written[offset] == self._all_written)
        serial, losses = self.state.serial, self.state.losses.count
        if self._whole == (serial, losses):
            return True
        stop = self.address + self.count * self.size
        cells = self.shadow.at(self.address, stop)
        if any(c.written_in == serial and c.covers(self.address, stop) for c in cells):
            self._whole = (serial, losses)
            return True
        start = self.address + offset * self.size
        return self.shadow.is_run_written(start, start + self.size, serial)
