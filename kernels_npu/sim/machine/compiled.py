"""A kernel compiled for the simulated NPU, and its launch."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import threadpoolctl

from kernels_npu.sim import ir
from kernels_npu.sim.config import Checks, SimConfig, current_config
from kernels_npu.sim.dtypes import bytes_of
from kernels_npu.sim.machine import ops as _ops  # noqa: F401  (fills the operation tables)
from kernels_npu.sim.machine.arguments import BoundArguments, bind_arguments, symbolic_dims
from kernels_npu.sim.machine.binding import BoundCore, bind_core
from kernels_npu.sim.machine.block_state import BlockState, LaunchState
from kernels_npu.sim.machine.codegen import CoreCodegen, generate_core_program
from kernels_npu.sim.machine.core_runtime import StopLaunch
from kernels_npu.sim.machine.counters import Counters, collect
from kernels_npu.sim.machine.cross_flags import CrossFlags
from kernels_npu.sim.machine.findings import ERROR, WARNING, Finding, FindingLog, HazardError
from kernels_npu.sim.machine.instruction import LoweringContext
from kernels_npu.sim.machine.memory import Arena, GmArg
from kernels_npu.sim.machine.program import CoreProgram
from kernels_npu.sim.machine.scheduler import Running, Scheduler
from kernels_npu.sim.machine.shadow import CORES
from kernels_npu.sim.passes import LoweredKernel, lower
from kernels_npu.sim.reporting import record_launch
from kernels_npu.sim.soc import MEMORY_OF_SCOPE, Soc

_CORE_MEMORIES = (("L1", "L0A", "L0B", "L0C"), ("UB",), ("UB",))


@dataclass(frozen=True, kw_only=True)
class LaunchRecord:
    """The outcome of a launch: blocks executed, counters, findings of all severities."""

    kernel: str
    blocks: int
    counters: Counters
    findings: tuple[Finding, ...]


@dataclass(frozen=True, eq=False)
class _Variant:
    """Programs of one (deferred, checks) combination and the static findings of generating them."""

    cube: CoreProgram
    vector: CoreProgram
    findings: tuple[Finding, ...]


@dataclass(eq=False)
class _Slot:
    """One set of cores: an AIC and its AIVs with their memories."""

    state: BlockState
    cores: list[BoundCore]


class CompiledKernel:
    """Executable form of a kernel for one target and SoC. Thread-safe: launches exclude each other."""

    def __init__(
        self, func: ir.PrimFunc, target: str, pass_configs: Mapping[str, bool], soc: Soc
    ) -> None:
        _single_blas_thread()
        self.lowered: LoweredKernel = lower(func, target, pass_configs, soc)
        self.func = self.lowered.func
        self.target = target
        self.soc = soc
        self.vector_cores = 1 if func.threads == 1 else 2
        self._lock = threading.Lock()
        self._variants: dict[tuple[bool, Checks], _Variant] = {}
        self._slots: dict[tuple[bool, Checks, int, tuple[int, ...]], list[_Slot]] = {}
        self._all_together = any(
            isinstance(s, ir.SyncAll) or (isinstance(s, ir.SetCrossFlag) and s.mode == 0)
            for s in ir.walk(func.body)
        )
        written = _written_tensors(self.lowered)
        self._tracked_names = written

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
        self, args: Sequence[GmArg | int | float], config: SimConfig | None = None
    ) -> LaunchRecord:
        """Execute the kernel on `args` (tensors and scalars in the order of the signature).

        Raises:
            HazardError: an error-level finding, when the configuration says `raise`.
            SimulationError: arguments that do not fit the signature (codes AI-TYPE-02x).
        """
        settings = config or current_config()
        with self._lock:
            bound = bind_arguments(self.func, args)
            record = self._launch(bound, settings)
        record_launch(record)
        errors = any(f.severity == ERROR for f in record.findings)
        if errors and settings.on_finding == "raise":
            raise HazardError(record.findings)
        return record

    def _launch(self, bound: BoundArguments, config: SimConfig) -> LaunchRecord:
        # With automatic synchronisation the compiler keeps each core in program order; schedules then
        # differ only in how the cores interleave.
        deferred = config.schedule != "eager" and not self.lowered.auto_sync
        tracked = self._tracked(bound)
        variant = self._variant(deferred, config.checks, tracked)
        log = FindingLog(self.name)
        for finding in variant.findings:
            log.add((finding.code, finding.loc, finding.message), finding)
        if self._all_together and bound.grid > self.soc.cube_cores:
            log.add(("grid",), self._too_many_blocks(bound.grid))
        executed: list[BoundCore] = []
        if not log.errors():
            executed = self._execute(bound, config, variant, log, tracked)
        return LaunchRecord(
            kernel=self.name,
            blocks=bound.grid,
            counters=collect(executed),
            findings=tuple(log),
        )

    def _execute(
        self,
        bound: BoundArguments,
        config: SimConfig,
        variant: _Variant,
        log: FindingLog,
        tracked: frozenset[int],
    ) -> list[BoundCore]:
        alive = bound.grid if self._all_together else min(1, bound.grid)
        slots = self._slots_for(variant, config, alive, tracked)
        launch = LaunchState(self.name, config, log, bound.tensor_names, bound.groups)
        scheduler = Scheduler(config.schedule, config.seed)
        try:
            with np.errstate(all="ignore"):
                for first in range(0, bound.grid, max(alive, 1)):
                    self._run_together(slots, first, bound, launch, scheduler)
                    if any(f.code == "AI-SYNC-002" for f in log.errors()):
                        break
        except StopLaunch:
            self._slots.clear()
        return [core for slot in slots for core in slot.cores]

    def _run_together(
        self,
        slots: list[_Slot],
        first: int,
        bound: BoundArguments,
        launch: LaunchState,
        scheduler: Scheduler,
    ) -> None:
        flags = CrossFlags(len(slots), self.vector_cores)
        checks = launch.config.checks
        monitored = checks.races or checks.uninitialised
        running = []
        for number, slot in enumerate(slots):
            block = first + number
            slot.state.start_block(launch, block, poison=checks.uninitialised)
            for core in slot.cores:
                core.runtime.cross_flags = flags
                if core.queues is not None:
                    core.queues.events.clear()
                vid = max(core.index - 1, 0)
                steps = core.program(block, vid, *bound.values)
                running.append(Running(core, steps))
        scheduler.run(running)
        for slot in slots:
            if monitored:
                slot.state.end_block()
            if checks.flags:
                self._report_leftovers(slot, launch)
        if checks.flags:
            self._report_cross_leftovers(slots, flags, launch)

    # ------------------------------------------------------------------ preparation

    def _tracked(self, bound: BoundArguments) -> frozenset[int]:
        """Tensors whose storage the kernel writes: only they can take part in a hazard."""
        written = {
            bound.groups[i][0]
            for i, name in enumerate(bound.tensor_names)
            if name in self._tracked_names
        }
        return frozenset(i for i in range(len(bound.tensor_names)) if bound.groups[i][0] in written)

    def _variant(self, deferred: bool, checks: Checks, tracked: frozenset[int]) -> _Variant:
        key = (deferred, checks)
        if tracked != self._default_tracked():
            return self._generate(deferred, checks, tracked)
        if key not in self._variants:
            self._variants[key] = self._generate(deferred, checks, tracked)
        return self._variants[key]

    def _default_tracked(self) -> frozenset[int]:
        return frozenset(
            i for i, b in enumerate(self.func.tensors) if b.name in self._tracked_names
        )

    def _generate(self, deferred: bool, checks: Checks, tracked: frozenset[int]) -> _Variant:
        context = LoweringContext(self.target, self.soc)
        parameters = ["cid", "vid", *self._parameter_names()]
        programs = []
        for kind, body in (("cube", self.lowered.cube), ("vector", self.lowered.vector)):
            codegen = CoreCodegen(
                self.func,
                kind,
                self.lowered.placements,
                context,
                checks,
                deferred=deferred,
                tracked=tracked,
                auto_sync=self.lowered.auto_sync,
            )
            for name, var in self._named_vars():
                codegen.writer.bind(var, name, non_negative=name.startswith("d"))
            programs.append(generate_core_program(codegen, body, parameters))
        findings = [*self._lowering_findings(checks), *self._static_findings(context, checks)]
        return _Variant(programs[0], programs[1], tuple(findings))

    def _named_vars(self) -> Iterator[tuple[str, ir.Var]]:
        for param in self.func.params:
            if isinstance(param, ir.Var):
                yield f"a{param.uid}", param
        for var in symbolic_dims(self.func):
            yield f"d{var.uid}", var

    def _parameter_names(self) -> list[str]:
        names = [name for name, _ in self._named_vars()]
        for index in range(len(self.func.tensors)):
            names += [f"G{index}", f"F{index}"]
        return names

    def _slots_for(
        self, variant: _Variant, config: SimConfig, alive: int, tracked: frozenset[int]
    ) -> list[_Slot]:
        deferred = variant.cube.deferred
        key = (deferred, config.checks, alive, tuple(sorted(tracked)))
        if key not in self._slots:
            self._slots[key] = [self._make_slot(i, variant, config) for i in range(alive)]
        return self._slots[key]

    def _make_slot(self, number: int, variant: _Variant, config: SimConfig) -> _Slot:
        arenas: dict[tuple[int, str], Arena] = {}
        for core in range(1 + self.vector_cores):
            for memory in _CORE_MEMORIES[core]:
                arenas[(core, memory)] = Arena(memory, self._arena_size(memory))
        state = BlockState(self.lowered.auto_sync, arenas)
        sizes = tuple(bytes_of(b.dtype) for b in self.func.tensors)
        flags = CrossFlags(1, self.vector_cores)
        cores = []
        for core in range(1 + self.vector_cores):
            program = variant.cube if core == 0 else variant.vector
            if program.empty:
                continue
            own = {m: arenas[(core, m)] for m in _CORE_MEMORIES[core]}
            cores.append(bind_core(program, core, number, state, own, config, sizes, flags))
            state.sites[core] = program.sites
        return _Slot(state, cores)

    def _arena_size(self, memory: str) -> int:
        """The bytes in use, plus one row pitch so that a padded last row can be viewed."""
        used = self.used_bytes.get(memory, 0)
        rows = [
            int(b.shape[-1]) * bytes_of(b.dtype)  # type: ignore[arg-type]
            for b in self.lowered.placements
            if MEMORY_OF_SCOPE[b.scope] == memory and b.shape
        ]
        size = used + max(rows, default=0)
        return -(-size // 64) * 64

    # ------------------------------------------------------------------ findings

    def _lowering_findings(self, checks: Checks) -> Iterator[Finding]:
        for note in self.lowered.notes:
            if note.code.startswith("AI-MEM") and not checks.capacity:
                continue
            if note.code.startswith("AI-SYNC") and not checks.settings:
                continue
            yield Finding(
                code=note.code,
                severity=note.severity,
                message=note.message,
                kernel=self.name,
                loc=note.loc,
            )

    def _static_findings(self, context: LoweringContext, checks: Checks) -> Iterator[Finding]:
        for code, severity, message, stmt in context.notes:
            if code.startswith("AI-TYPE") and not checks.dtypes:
                continue
            if code.startswith("AI-BOUND") and not (checks.bounds or checks.alignment):
                continue
            yield Finding(
                code=code, severity=severity, message=message, kernel=self.name, loc=stmt.loc
            )

    def _too_many_blocks(self, grid: int) -> Finding:
        return Finding(
            code="AI-SYNC-008",
            severity=ERROR,
            message=f"{grid} blocks wait for each other (sync_all or a mode 0 flag), {self.soc.name} runs "
            f"{self.soc.cube_cores} at a time",
            kernel=self.name,
            loc=self.func.loc,
            fix=f"launch at most {self.soc.cube_cores} blocks and loop over the work",
        )

    def _report_leftovers(self, slot: _Slot, launch: LaunchState) -> None:
        for core, src, dst, event, count in slot.state.monitor.leftover_flags():
            launch.log.add(
                ("leftover", core > 0, src, dst, event),
                Finding(
                    code="AI-SYNC-003",
                    severity=WARNING,
                    message=f"flag {src}->{dst} event {event} is still set {count} time(s) at the end "
                    f"of the kernel ({CORES[core]}); the next launch would find it set",
                    kernel=self.name,
                    loc=self.func.loc,
                    fix="wait for every flag that is set",
                ),
            )

    def _report_cross_leftovers(
        self, slots: list[_Slot], flags: CrossFlags, launch: LaunchState
    ) -> None:
        for (_, core), flag, count in flags.leftovers():
            launch.log.add(
                ("cross leftover", core > 0, flag),
                Finding(
                    code="AI-SYNC-003",
                    severity=WARNING,
                    message=f"cross-core flag {flag} is still set {count} time(s) at the end of the "
                    f"kernel ({CORES[core]})",
                    kernel=self.name,
                    loc=self.func.loc,
                    fix="wait for every flag that is set",
                ),
            )


def _written_tensors(lowered: LoweredKernel) -> frozenset[str]:
    """Names of the tensor parameters that some statement writes."""
    names: set[str] = set()
    for stmt in (*ir.walk(lowered.cube), *ir.walk(lowered.vector)):
        if isinstance(stmt, ir.Store) and stmt.buffer.scope == "global":
            names.add(stmt.buffer.name)
        if isinstance(stmt, ir.TileOp) and stmt.op in ("copy", "atomic_add"):
            operand = stmt.operands[1] if stmt.op == "copy" else stmt.operands[0]
            buffer = operand if isinstance(operand, ir.Buffer) else getattr(operand, "buffer", None)
            if isinstance(buffer, ir.Buffer) and buffer.scope == "global":
                names.add(buffer.name)
    return frozenset(names)


@functools.cache
def _single_blas_thread() -> None:
    """Tiles are far too small for threads: two BLAS threads are slower than one by orders."""
    threadpoolctl.threadpool_limits(1, user_api="blas")
