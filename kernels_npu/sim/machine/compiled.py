"""A kernel compiled for the simulated NPU, and its launch."""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import threadpoolctl

from kernels_npu.errors import AscendInferError
from kernels_npu.sim import ir
from kernels_npu.sim.config import Checks, SimConfig, current_config
from kernels_npu.sim.machine import ops as _ops  # noqa: F401  (fills the operation tables)
from kernels_npu.sim.machine.advisors import Advisors
from kernels_npu.sim.machine.arguments import BoundArguments, bind_arguments
from kernels_npu.sim.machine.block_state import LaunchState
from kernels_npu.sim.machine.core_counters import CoreCounters, CoreLog
from kernels_npu.sim.machine.core_reports import StopLaunch
from kernels_npu.sim.machine.counters import Counters, collect
from kernels_npu.sim.machine.cross_flags import CrossFlags
from kernels_npu.sim.machine.event_recorder import EventRecorder
from kernels_npu.sim.machine.failures import StoppingLog, failure_finding
from kernels_npu.sim.machine.findings import ERROR, Finding, FindingLog, HazardError
from kernels_npu.sim.machine.kept_memory import CoreMemory
from kernels_npu.sim.machine.launch_reports import (
    refusal,
    report_leftovers,
    too_many_blocks,
)
from kernels_npu.sim.machine.memory import GmArg
from kernels_npu.sim.machine.outputs import written_tensors
from kernels_npu.sim.machine.program import CoreProgram
from kernels_npu.sim.machine.scheduler import Running, Scheduler
from kernels_npu.sim.machine.slots import (
    SlotGroup,
    end_timelines,
    make_slots,
    start_timelines,
)
from kernels_npu.sim.machine.sync_hints import report_useless
from kernels_npu.sim.machine.variants import Mode, Tracked, Variants
from kernels_npu.sim.machine.vector_split import same_on_both_cores
from kernels_npu.sim.passes import AUTO_CV_COMBINE, LoweredKernel, lower
from kernels_npu.sim.reporting import record_launch
from kernels_npu.sim.soc import Soc
from kernels_npu.sim.tracing.recorder import LaunchTrace, active_recorder

#: Called before every launch with the kernel and its arguments.
launch_observers: list[Callable[[CompiledKernel, Sequence[GmArg | int | float]], None]] = []


@dataclass(frozen=True, kw_only=True)
class LaunchRecord:
    """The outcome of a launch: blocks executed, counters, findings of all severities.

    critical_path: modelled cycles from the first to the last instruction of a traced launch.
    memory: on-chip buffers per block and core, when the configuration says `keep_memory`.
    cores: counters per block and core, when the configuration says `count_cores`.
    soc: the chip that was simulated. vector_cores: AIVs per block.
    """

    kernel: str
    blocks: int
    counters: Counters
    findings: tuple[Finding, ...]
    critical_path: int | None = None
    memory: tuple[CoreMemory, ...] = ()
    cores: tuple[CoreCounters, ...] = ()
    soc: str = ""
    vector_cores: int = 2


@dataclass(frozen=True, eq=False)
class StaticCheck:
    """What can be said without executing, and the programs of both core types it was said about.

    refused: how many statements cannot be executed; the programs lack them.
    """

    programs: tuple[CoreProgram, CoreProgram]
    findings: tuple[Finding, ...]
    refused: int


class CompiledKernel:
    """Executable form of a kernel for one target and SoC.

    Thread-safe: launches exclude each other.
    """

    def __init__(
        self, func: ir.PrimFunc, target: str, pass_configs: Mapping[str, bool], soc: Soc
    ) -> None:
        _single_blas_thread()
        self.lowered: LoweredKernel = lower(func, target, pass_configs, soc)
        self.func = self.lowered.func
        #: what was compiled
        self.source = func
        self.pass_configs = dict(pass_configs)
        self.target = target
        self.soc = soc
        self.vector_cores = 1 if func.threads == 1 else 2
        self._lock = threading.Lock()
        self._variants = Variants(self.lowered, target, soc)
        self._slots: dict[tuple[Mode, int], SlotGroup] = {}
        self._all_together = any(
            isinstance(s, ir.SyncAll) or (isinstance(s, ir.SetCrossFlag) and s.mode == 0)
            for s in ir.walk(func.body)
        )
        self._has_breakpoint = any(
            isinstance(s, ir.Debug) and s.action == "breakpoint" for s in ir.walk(func.body)
        )
        self._written = written_tensors(self.lowered)
        self._advisors = Advisors(
            self.func,
            self.lowered.cube,
            self.lowered.vector,
            combined=bool(pass_configs.get(AUTO_CV_COMBINE)),
        )
        self._same_work = same_on_both_cores(self.lowered.vector, self.func.vid)

    @property
    def name(self) -> str:
        """The prim_func's name."""
        return self.func.name

    @property
    def used_bytes(self) -> Mapping[str, int]:
        """Highest byte in use per memory, as the device compiler places buffers."""
        return self.lowered.used_bytes

    # ------------------------------------------------------------------ launch

    def launch(
        self,
        args: Sequence[GmArg | int | float],
        config: SimConfig | None = None,
        *,
        noted: Sequence[Finding] = (),
    ) -> LaunchRecord:
        """Execute the kernel on `args` (tensors and scalars in the order of the signature).

        noted: what the caller found about the call.

        Raises:
            HazardError: an error-level finding, when the configuration says `raise`.
            SimulationError: arguments that do not fit the signature (codes AI-TYPE-02x).
        """
        settings = config or current_config()
        for observe in launch_observers:
            observe(self, args)
        with self._lock:
            bound = bind_arguments(self.func, args)
            recorder = active_recorder()
            if recorder is None or not recorder.takes_launch():
                record = self._launch(bound, settings, None, noted)
            else:
                with recorder.launch(self.name, self.soc.cube_cores) as trace:
                    record = self._launch(bound, settings, trace, noted)
        record_launch(record)
        errors = any(f.severity == ERROR for f in record.findings)
        if errors and settings.on_finding == "raise":
            raise HazardError(record.findings)
        return record

    def record(
        self, args: Sequence[GmArg | int | float], config: SimConfig | None = None
    ) -> EventRecorder:
        """Execute the kernel as `launch` does, eagerly, and record what orders what.

        Nothing is checked and nothing reported. Accesses to tensors that the kernel only reads take
        part in no hazard and are left out. The execution is cut short where the cores deadlock.
        """
        settings = dataclasses.replace(
            config or current_config(),
            schedule="eager",
            on_finding="report",
            checks=dataclasses.replace(Checks.none(), races=True),
        )
        with self._lock:
            bound = bind_arguments(self.func, args)
            mode = Mode(
                deferred=False,
                checks=settings.checks,
                tracked=self._tracked(bound),
                short=bound.short,
                stepwise=True,
            )
            variant = self._variants.generate(mode)
            alive = bound.grid if self._all_together else 1
            slots = make_slots(
                self.lowered,
                variant.programs,
                self.vector_cores,
                alive,
                settings,
                every_range=True,
            )
            lines = {program.filename: program.line_stmts for program in variant.programs}
            recorder = EventRecorder(slots.group, lines, alive)
            slots.group.use_monitor(recorder)
            self._execute(slots, bound, settings, FindingLog(self.name), None)
            recorder.block_boundary()
        return recorder

    def _launch(
        self,
        bound: BoundArguments,
        config: SimConfig,
        trace: LaunchTrace | None,
        noted: Sequence[Finding],
    ) -> LaunchRecord:
        # With automatic synchronisation the compiler keeps each core in program order; schedules
        # then differ only in how the cores interleave.
        deferred = config.schedule != "eager" and not self.lowered.auto_sync
        mode = Mode(
            deferred=deferred,
            checks=config.checks,
            tracked=self._tracked(bound),
            traced=trace is not None,
            precise=config.precise,
            debugged=config.breakpoints if config.breakpoints or self._has_breakpoint else None,
            short=bound.short,
        )
        variant = self._variants.of(mode)
        log = StoppingLog(self.name) if config.on_finding == "stop" else FindingLog(self.name)
        switched_on = (f for f in noted if getattr(config.checks, f.check))
        for finding in (*variant.findings, *switched_on):
            log.add((finding.code, finding.loc, finding.message), finding)
        if self._all_together and bound.grid > self.soc.cube_cores:
            log.add(("grid",), too_many_blocks(self.func, bound.grid, self.soc))
        counters = Counters()
        memory: Sequence[CoreMemory] = ()
        cores = CoreLog() if config.count_cores else None
        if (config.on_finding == "report" or not log.errors()) and bound.grid > 0:
            alive = bound.grid if self._all_together else 1
            place = (mode, alive)
            slots = self._slots.get(place)
            if slots is None:
                slots = make_slots(self.lowered, variant.programs, self.vector_cores, alive, config)
                self._slots[place] = slots
            try:
                self._execute(slots, bound, config, log, trace, cores)
            except BaseException:
                # Cores that were stopped hold half-executed instructions.
                del self._slots[place]
                raise
            counters = collect(slots.cores)
            memory = slots.kept
            if log.errors():
                del self._slots[place]
        return LaunchRecord(
            kernel=self.name,
            blocks=max(bound.grid, 0),
            counters=counters,
            findings=tuple(log),
            critical_path=None if trace is None else trace.critical_path,
            memory=tuple(memory),
            cores=() if cores is None else tuple(cores.entries),
            soc=self.soc.name,
            vector_cores=self.vector_cores,
        )

    def _execute(
        self,
        slots: SlotGroup,
        bound: BoundArguments,
        config: SimConfig,
        log: FindingLog,
        trace: LaunchTrace | None,
        cores: CoreLog | None = None,
    ) -> None:
        launch = LaunchState(
            self.name,
            config,
            log,
            bound.tensor_names,
            bound.groups,
            bound.flat,
            self._advisors,
            self._same_work,
            trace,
        )
        scheduler = Scheduler(config.schedule, config.seed)
        slots.group.start_launch(launch)
        slots.kept = []
        if slots.precise is not None:
            slots.precise.start_launch(bound.flat)
        if isinstance(log, StoppingLog):
            log.stop = True
            log.known = config.known
        running: list[Running] = []
        try:
            with np.errstate(all="ignore"):
                for first in self._first_blocks(bound.grid, len(slots.slots), config.blocks):
                    running = self._start(slots, first, bound, launch)
                    try:
                        self._finish(slots, scheduler, running, launch)
                    finally:
                        if config.keep_memory:
                            slots.keep_memory(self.lowered.placements)
                        if cores is not None:
                            slots.count_cores(cores)
                    if any(f.code == "AI-SYNC-002" for f in log.errors()):
                        return
            slots.group.end_launch()
            report_useless(launch, slots.cores)
        except StopLaunch:
            return
        except Exception as exc:
            finding = failure_finding(self.name, running, exc)
            if finding is None:
                raise
            log.add(("failure",), finding)

    def _first_blocks(self, grid: int, alive: int, chosen: tuple[int, ...]) -> Sequence[int]:
        """The first block of every group of blocks that are alive together."""
        if chosen and not self._all_together:
            return [block for block in chosen if block < grid]
        return range(0, grid, alive)

    def _start(
        self, slots: SlotGroup, first: int, bound: BoundArguments, launch: LaunchState
    ) -> list[Running]:
        """Put the blocks from `first` on into the slots."""
        slots.flags.reset()
        slots.group.start_blocks()
        running = []
        for number, slot in enumerate(slots.slots):
            slot.state.start_block(first + number, poison=launch.config.checks.uninitialised)
            for core in slot.cores:
                if core.runtime.watch is not None:
                    core.runtime.watch.start_block()
                if core.queues is not None:
                    core.queues.events.clear()
                steps = core.program(first + number, max(core.index - 1, 0), *bound.values)
                running.append(Running(core, steps))
        if launch.trace is not None:
            start_timelines(launch.trace, slots, CrossFlags(len(slots.slots), self.vector_cores))
        return running

    def _finish(
        self,
        slots: SlotGroup,
        scheduler: Scheduler,
        running: list[Running],
        launch: LaunchState,
    ) -> None:
        if not running:
            return
        try:
            scheduler.run(running)
        finally:
            if launch.trace is not None:
                end_timelines(launch.trace, slots)
            for entry in running:
                entry.core.runtime.console.flush()
        slots.group.end_blocks()
        if launch.config.checks.flags:
            report_leftovers(slots.group, slots.flags)

    # ------------------------------------------------------------------ preparation

    def static_check(self, checks: Checks | None = None) -> StaticCheck:
        """The findings of passes, operand rules, sizes and alignment.

        Unlike a launch, which stops at the first statement that the machine cannot execute, it goes
        on and reports each of them.
        """
        everything = frozenset(range(len(self.func.tensors)))
        refused: list[AscendInferError] = []
        mode = Mode(deferred=False, checks=checks or Checks(), tracked=everything)
        variant = self._variants.generate(mode, refused)
        findings = (*variant.findings, *(refusal(self.name, error) for error in refused))
        return StaticCheck(variant.programs, findings, len(refused))

    def _tracked(self, bound: BoundArguments) -> Tracked:
        """Tensors whose storage the kernel writes: only they can take part in a hazard."""
        written = {
            bound.groups[i][0] for i, name in enumerate(bound.tensor_names) if name in self._written
        }
        return frozenset(i for i in range(len(bound.tensor_names)) if bound.groups[i][0] in written)


@functools.cache
def _single_blas_thread() -> None:
    """Tiles are far too small for threads: two BLAS threads are slower than one by orders."""
    threadpoolctl.threadpool_limits(1, user_api="blas")
