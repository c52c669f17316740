"""Builds the check of a site: races and uninitialised bytes, on the ranges that it touches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernels_npu.sim.config import Checks
from kernels_npu.sim.dtypes import bytes_of
from kernels_npu.sim.machine.block_state import BlockState
from kernels_npu.sim.machine.findings import ERROR, WARNING, Finding
from kernels_npu.sim.machine.instruction import AnyArray
from kernels_npu.sim.machine.operands import View
from kernels_npu.sim.machine.shadow import CORES, Cell, ElementTrace, ShadowMemory
from kernels_npu.sim.machine.sites import Footprint, Site


@dataclass(eq=False)
class _Range:
    """A footprint with everything about it that does not change between executions.

    fixed: its cell, when the range is a constant. address, size: start and element size in bytes.
    ordered: whether the range needs no check for races.
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
    ordered: bool
    overruns: bool = False
    fixed: Cell | None = None


class _Touched:
    """The cells of one execution; most executions of a site touch the same ones again.

    racing: the ranges that can have a race (see `stretch_effect.Access`). reads, writes: the
    on-chip ranges. clobbers: a write leaves nothing of use. written_in, losses: block, and how
    often memories had lost data, when the last look found all on-chip ranges written.
    """

    __slots__ = ("clobbers", "losses", "racing", "ranges", "reads", "writes", "written_in")

    def __init__(self, ranges: list[tuple[_Range, Cell]]) -> None:
        self.ranges = ranges
        self.racing = [
            (item.write, cell, _elements(item.shadow, cell))
            for item, cell in ranges
            if not item.ordered
        ]
        self.reads = [c for r, c in ranges if r.shadow is not None and not r.write]
        self.writes = [(c, r.shadow) for r, c in ranges if r.shadow is not None and r.write]
        self.clobbers = any(item.footprint.clobbers for item, _ in ranges)
        self.written_in = -1
        self.losses = -1


def _elements(shadow: ShadowMemory | None, cell: Cell) -> ElementTrace | None:
    """The record of element accesses that `cell` must be compared with, if any."""
    trace = shadow.elements if shadow is not None else None
    return trace if trace is not None and trace.meets(cell) else None


class SiteCheck:
    """Checks one site on one core; call `run`.

    Without run-time ranges `run()`. Else the arguments are, per run-time footprint in order, an
    element offset (on chip) or (element offset, rows, columns, pitch) in a global tensor; then, for
    a site whose on-chip side covers only what moves, the shape of the moved rectangle (None: all of
    it); then, for a site with reads that depend on a condition, whether they happen.
    """

    def __init__(
        self,
        state: BlockState,
        core: int,
        site: Site,
        checks: Checks,
        private: frozenset[int] = frozenset(),
    ) -> None:
        self.state = state
        self.core = core
        self.site = site
        self.number = state.first_core + core
        self.agent = state.monitor.agent(self.number, site.pipe)
        self.races = checks.races
        self.uninitialised = checks.uninitialised
        self.private = private
        self.ranges = [self._range(f) for f in site.footprints]
        self.stores = bool(site.gm_path) and any(r.shadow and not r.write for r in self.ranges)
        self.overtakes = site.instruction is not None and site.instruction.overtakes
        self.clips = site.clips
        self.conditional = any(r.footprint.conditional for r in self.ranges)
        dynamic = self.clips or self.conditional
        #: the cells, when they are always the same; made by the first execution
        self._constant: _Touched | None = None
        self.run: Callable[..., None]
        if not dynamic and all(r.fixed is not None for r in self.ranges):
            self.run = self._constant_run()
        else:
            self.run = self._dynamic_run()
        tail = site.instruction.tail if site.instruction else None
        if tail is not None and self.uninitialised:
            self.run = self._leaving(tail, self.run)

    def _leaving(self, tail: View, run: Callable[..., None]) -> Callable[..., None]:
        """`run`, and a note that nobody need have written `tail`, behind a compacted list."""
        shadow = self.state.on_chip[(self.core, tail.memory)]
        address = next(f.address for f in self.site.footprints if f.write)
        start = address + int(tail.offset.value) * tail.itemsize  # type: ignore[attr-defined]
        span = (start, start + tail.count * tail.itemsize)

        def noted(*values: Any) -> None:
            run(*values)
            shadow.tails[span] = self.state.serial

        return noted

    def _range(self, footprint: Footprint) -> _Range:
        view = footprint.view
        if not isinstance(view, View):
            size = bytes_of(view.buffer.dtype)
            return _Range(
                footprint, footprint.write, footprint.tensor, None, 0, size, 0, 0, 0, not self.races
            )
        size = view.itemsize
        shadow = self.state.on_chip[(self.core, view.memory)]
        rows, row_bytes, pitch = view.rows, view.cols * size, view.pitch * size
        if view.overruns and footprint.fixed:
            row_bytes = pitch = min(row_bytes, shadow.size - footprint.address)
        # A core that the compiler synchronises is one agent, and on-chip memory has no other.
        ordered = (
            not self.races
            or self.state.auto_sync
            or footprint.data_only
            or id(footprint) in self.private
        )
        found = _Range(
            footprint,
            footprint.write,
            -1,
            shadow,
            footprint.address,
            size,
            rows,
            row_bytes,
            pitch,
            ordered,
            overruns=view.overruns,
        )
        if footprint.fixed:
            start = footprint.address + int(view.offset.value) * size  # type: ignore[attr-defined]
            found.address = start
            found.fixed = shadow.cell(start, rows, row_bytes, pitch)
        return found

    # ------------------------------------------------------------------ for stretches

    @property
    def racing(self) -> Sequence[tuple[bool, Cell, ElementTrace | None]]:
        """The constant ranges that can have a race; see `stretch_effect.Access`."""
        assert self._constant is not None
        return self._constant.racing

    def is_settled(self) -> bool:
        """Whether another execution would find the constant ranges written, and leave them so."""
        touched, state = self._constant, self.state
        assert touched is not None
        return touched.written_in == state.serial and touched.losses == state.losses.count

    # ------------------------------------------------------------------ hot path

    def _constant_run(self) -> Callable[[], None]:
        state, number, agent, index = self.state, self.number, self.agent, self.site.index
        losses, uninitialised, check_written = state.losses, self.uninitialised, self._check_written

        def run() -> None:
            touched = self._constant
            if touched is None:
                ranges = [(item, item.fixed) for item in self.ranges if item.fixed is not None]
                touched = self._constant = _Touched(ranges)
            if touched.racing:
                monitor = state.monitor
                monitor.changes[number] += 1
                for write, cell, elements in touched.racing:
                    if elements is not None:
                        monitor.against_elements(agent, elements, cell, index, write=write)
                    if write:
                        monitor.write(agent, cell, index)
                    else:
                        monitor.read(agent, cell, index)
            if uninitialised and (
                touched.written_in != state.serial or touched.losses != losses.count
            ):
                check_written(touched)

        return run

    def _dynamic_run(self) -> Callable[..., None]:
        state, number, agent, index = self.state, self.number, self.agent, self.site.index
        losses, uninitialised, check_written = state.losses, self.uninitialised, self._check_written
        overtakes = self.overtakes
        #: by argument tuple, of the block in which they were made; scalar accesses rarely repeat
        known: dict[tuple[Any, ...], _Touched] = {}
        known_in = -1
        repeats = self.site.instruction is not None

        def run(*values: Any) -> None:
            nonlocal known_in
            serial = state.serial
            if known_in != serial:
                known_in = serial
                known.clear()
            touched = known.get(values)
            if touched is None:
                touched = _Touched(self._find(values))
                if repeats:
                    known[values] = touched
            if touched.racing:
                monitor = state.monitor
                if overtakes:
                    self._check_accumulator(touched)
                monitor.changes[number] += 1
                for write, cell, elements in touched.racing:
                    if elements is not None:
                        monitor.against_elements(agent, elements, cell, index, write=write)
                    if write:
                        monitor.write(agent, cell, index)
                    else:
                        monitor.read(agent, cell, index)
            if uninitialised and (touched.written_in != serial or touched.losses != losses.count):
                check_written(touched)

        return run

    def _check_accumulator(self, touched: _Touched) -> None:
        """What a small product adds to may still be under way on the same pipe."""
        monitor, agent = self.state.monitor, self.agent
        for item, cell in touched.ranges:
            older = monitor.unfinished_write(agent, cell) if item.footprint.conditional else None
            if older is not None:
                self.state.group.reports.overtaken(agent, older, cell, self.site.index)

    def _find(self, values: tuple[Any, ...]) -> list[tuple[_Range, Cell]]:
        """The ranges that the arguments of `run` name."""
        happens = values[-1] if self.conditional else True
        clip = values[-2 if self.conditional else -1] if self.clips else None
        position = 0
        touched: list[tuple[_Range, Cell]] = []
        for item in self.ranges:
            shadow = item.shadow
            if shadow is None:
                offset, rows, cols, pitch = values[position]
                position += 1
                if rows == 0 or cols == 0:
                    continue
                gm_shadow, base = self.state.group.gm_shadow(item.tensor)
                size = item.size
                start = base + offset * size
                touched.append((item, gm_shadow.cell(start, rows, cols * size, pitch * size)))
                continue
            fixed = item.fixed
            start = item.address
            if fixed is None:
                start += values[position] * item.size
                position += 1
            if not happens and item.footprint.conditional:
                continue
            if clip is not None:
                rows, cols = clip
                if rows == 0 or cols == 0:
                    continue
                touched.append((item, shadow.cell(start, rows, cols * item.size, item.pitch)))
            elif fixed is not None:
                touched.append((item, fixed))
            elif item.overruns:
                length = min(item.row_bytes, shadow.size - start)
                touched.append((item, shadow.cell(start, 1, length, length)))
            else:
                touched.append((item, shadow.cell(start, item.rows, item.row_bytes, item.pitch)))
        return touched

    # ------------------------------------------------------------------ written bytes

    def _check_written(self, touched: _Touched) -> None:
        state = self.state
        serial = state.serial
        if not touched.clobbers and all(cell.written_in == serial for cell in touched.reads):
            for cell, shadow in touched.writes:
                shadow.mark(cell, serial)
        else:
            on_chip = [(item, cell) for item, cell in touched.ranges if item.shadow is not None]
            self._track_written(on_chip)
            if any(cell.written_in != serial for _, cell in on_chip):
                return
        touched.written_in, touched.losses = serial, state.losses.count

    def _track_written(self, touched: list[tuple[_Range, Cell]]) -> None:
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
            item, cell = unwritten[0]
            padding = item.shadow is not None and item.shadow.lacks_padding_only(cell, serial)
            report_unwritten(self.state, self.core, self.site, item.footprint, padding=padding)
        for item, cell in touched:
            if not item.write or item.shadow is None:
                continue
            if item.footprint.clobbers:
                item.shadow.unmark(cell, serial)
            elif unwritten and self._taints():
                self._write_partly(item, cell, touched)
            else:
                item.shadow.mark(cell, serial)

    def _taints(self) -> bool:
        instruction = self.site.instruction
        overruns = any(isinstance(f.view, View) and f.view.overruns for f in self.site.footprints)
        return instruction is not None and instruction.taint is not None and not overruns

    def _write_partly(self, item: _Range, cell: Cell, touched: list[tuple[_Range, Cell]]) -> None:
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
            item.shadow.mark(cell, serial)
            return
        item.shadow.mark_partly(cell, np.repeat(result, view.itemsize, axis=1), serial)

    def _element_bits(self, item: _Range, cell: Cell) -> AnyArray:
        view = item.footprint.view
        assert isinstance(view, View) and item.shadow is not None
        elements = item.shadow.bits(cell, self.state.serial)[:, :: view.itemsize]
        return elements.reshape(-1) if view.flat else elements.reshape(view.rows, view.cols)


def report_unwritten(
    state: BlockState, core: int, site: Site, footprint: Footprint, *, padding: bool = False
) -> None:
    """Bytes that were never written are stored to global memory.

    padding: only bytes behind written ones in the same 32 bytes, which a caller may well ignore.
    """
    launch = state.launch
    name = footprint.view.buffer.name
    key = ("init", padding, site.stmt.loc, core > 0)
    if launch.log.seen(key):
        return
    what = "padding of" if padding else "bytes of"
    launch.log.add(
        key,
        Finding(
            code="AI-INIT-003" if padding else "AI-INIT-001",
            severity=WARNING if padding else ERROR,
            message=f"{what} {name} that {'was' if padding else 'were'} never written "
            f"{'reaches' if padding else 'reach'} global memory "
            f"(block {state.block}, {CORES[core]})",
            kernel=launch.kernel,
            loc=site.stmt.loc,
            fix=f"fill or load all of {name} that is stored, or store less of it",
        ),
    )
