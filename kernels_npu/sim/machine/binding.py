"""Binds generated programs to the memories of one block slot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from kernels_npu.sim.config import SimConfig
from kernels_npu.sim.machine import scalar_math
from kernels_npu.sim.machine.access_checks import SiteCheck
from kernels_npu.sim.machine.block_state import BlockState
from kernels_npu.sim.machine.core_runtime import CoreRuntime
from kernels_npu.sim.machine.cross_flags import CrossFlags
from kernels_npu.sim.machine.deferred import PipeQueues
from kernels_npu.sim.machine.element_checks import ElementCheck
from kernels_npu.sim.machine.instruction import AnyArray
from kernels_npu.sim.machine.memory import Arena
from kernels_npu.sim.machine.operands import View
from kernels_npu.sim.machine.parallel_checks import ParallelCheck
from kernels_npu.sim.machine.precise import PreciseMemory
from kernels_npu.sim.machine.private_ranges import private_footprints
from kernels_npu.sim.machine.program import CoreProgram, ViewConstant
from kernels_npu.sim.machine.shadow import PIPES
from kernels_npu.sim.machine.stretch_check import StretchCheck
from kernels_npu.sim.machine.sync_watch import SyncWatch
from kernels_npu.sim.machine.timeline import Timeline

Step = object
ProgramFunction = Callable[..., Iterator[Step]]


@dataclass(eq=False)
class BoundCore:
    """A program ready to run on one core of one block slot."""

    index: int
    program: ProgramFunction
    runtime: CoreRuntime
    queues: PipeQueues | None
    counts: list[int]
    gm_bytes: list[int]
    source: CoreProgram
    timeline: Timeline | None


_SERVICES: dict[str, object] = {
    **scalar_math.SERVICES,
    "VECTOR_PIPES": ("V",),
    "ALL_PIPES": PIPES[1:],
}


def _bind_view(constant: ViewConstant, arena: Arena) -> AnyArray:
    view = constant.view
    flat = arena.flat(constant.address, view.buffer.dtype)
    if constant.kind == "flat":
        return flat
    offset = int(view.offset.value)  # type: ignore[attr-defined]
    if view.flat:
        return flat[offset : offset + view.cols]
    if view.contiguous:
        return flat[offset : offset + view.count].reshape(view.rows, view.cols)
    rows = flat[offset : offset + view.rows * view.pitch].reshape(view.rows, view.pitch)
    return rows[:, : view.cols]


def _smallest_element(program: CoreProgram) -> int:
    """Bytes of the smallest element that the program's scalar accesses name, 8 at most."""
    views = (
        footprint.view for site in program.sites if site.element for footprint in site.footprints
    )
    return min((view.itemsize for view in views if isinstance(view, View)), default=8)


def bind_core(
    program: CoreProgram,
    core: int,
    slot: int,
    state: BlockState,
    arenas: Mapping[str, Arena],
    config: SimConfig,
    cross_flags: CrossFlags,
    precise: PreciseMemory | None = None,
    *,
    every_range: bool = False,
) -> BoundCore:
    """Make `program` executable on core `core` (0 AIC, 1 and 2 the AIVs) of block slot `slot`.

    every_range: the monitor also sees the ranges that a single pipe touches.
    """
    checks = config.checks
    monitored = checks.races or checks.uninitialised
    runtime = CoreRuntime(core, slot, state, program.sites, monitored=monitored)
    runtime.check_flags = checks.flags
    runtime.cross_flags = cross_flags
    counts = [0] * len(program.sites)
    gm_bytes = [0] * len(program.sites)
    if checks.redundancy and checks.races and not state.auto_sync:
        runtime.start_watch(SyncWatch(program.sites, counts))
    queues = PipeQueues(runtime) if program.deferred else None
    names: dict[str, object] = {
        **_SERVICES,
        **program.values,
        "R": runtime,
        "n": counts,
        "b": gm_bytes,
    }
    if queues is not None:
        names["E"] = queues.events
        names |= {f"Q_{pipe}": queue for pipe, queue in queues.by_pipe.items()}
    timeline = None
    if program.traced:
        timeline = Timeline(slot, core, program.sites, auto_sync=state.auto_sync)
        names["X"] = timeline
    for name, constant in program.views.items():
        names[name] = _bind_view(constant, arenas[constant.view.memory])
    for name, factory in program.factories.items():
        names[name] = factory()
    site_checks: dict[int, SiteCheck] = {}
    if monitored:
        private: frozenset[int] = frozenset()
        if not every_range:
            private = private_footprints(program.sites, bounds_checked=checks.bounds)
        granule = _smallest_element(program)
        for site in program.sites:
            if site.element:
                element = ElementCheck(state, core, site, checks, granule)
                names[f"c{site.index}"] = element.run
                names[f"u{site.index}"] = element.is_written
            elif site.footprints:
                check = (
                    ParallelCheck(state, core, site, checks)
                    if site.parallel
                    else SiteCheck(state, core, site, checks, private)
                )
                if isinstance(check, SiteCheck):
                    site_checks[site.index] = check
                names[f"c{site.index}"] = check.run
    for number, steps in enumerate(program.stretches):
        name = f"g{number}"
        names[name] = StretchCheck(runtime, steps, site_checks, counts, names, name).run
    if precise is not None:
        names["P"] = precise
        for site in program.sites:
            if site.instruction is not None and f"k{site.index}" in names:
                names[f"k{site.index}"] = precise.widened(site.instruction)
    if program.debug is not None:
        from kernels_npu.sim.machine.debug_program import debug_names

        names = debug_names(program, names, runtime, arenas)
    exec(program.code, names)
    function: ProgramFunction = names[program.entry]  # type: ignore[assignment]
    return BoundCore(core, function, runtime, queues, counts, gm_bytes, program, timeline)
