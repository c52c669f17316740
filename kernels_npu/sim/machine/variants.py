"""The programs of a kernel, generated anew for every way to run it."""

from __future__ import annotations

from dataclasses import dataclass

from kernels_npu.errors import AscendInferError
from kernels_npu.sim import ir
from kernels_npu.sim.config import Checks
from kernels_npu.sim.debugger.breakpoints import Breakpoint
from kernels_npu.sim.machine.arguments import symbolic_dims
from kernels_npu.sim.machine.codegen import CoreCodegen, generate_core_program
from kernels_npu.sim.machine.findings import Finding
from kernels_npu.sim.machine.instruction import LoweringContext
from kernels_npu.sim.machine.intervals import EXTENTS
from kernels_npu.sim.machine.launch_reports import (
    lowering_findings,
    one_sided_barriers,
    static_findings,
)
from kernels_npu.sim.machine.program import CoreProgram
from kernels_npu.sim.machine.sync_hints import idle_barriers, unshared_flags
from kernels_npu.sim.passes import LoweredKernel
from kernels_npu.sim.soc import Soc

#: Indices of tensors among the kernel's tensor parameters.
Tracked = frozenset[int]


@dataclass(frozen=True, kw_only=True)
class Mode:
    """What the generated programs depend on besides the kernel.

    deferred: instructions are queued per pipe. tracked: tensors whose accesses are checked.
    traced: issues are reported to the cores' timelines. precise: half precision is kept in float32.
    debugged: the programs run under the debugger, with these breakpoints; None is without. short:
    tensors whose accesses must be tested against the bytes that there are. stepwise: every check
    and flag is a line of its own.
    """

    deferred: bool
    checks: Checks
    tracked: Tracked
    traced: bool = False
    precise: bool = False
    debugged: tuple[Breakpoint, ...] | None = None
    short: Tracked = frozenset()
    stepwise: bool = False

    @property
    def merged(self) -> bool:
        """Whether checks and flags with nothing in between are made in stretches."""
        return not (self.stepwise or self.deferred or self.traced or self.debugged is not None)


@dataclass(frozen=True, eq=False)
class Variant:
    """Programs of the cube and the vector cores, and the static findings of generating them."""

    programs: tuple[CoreProgram, CoreProgram]
    findings: tuple[Finding, ...]


class Variants:
    """The variants of one kernel: each is generated at its first use and kept."""

    def __init__(self, lowered: LoweredKernel, target: str, soc: Soc) -> None:
        self._lowered = lowered
        self._func = lowered.func
        self._target = target
        self._soc = soc
        self.generated: dict[Mode, Variant] = {}

    def of(self, mode: Mode) -> Variant:
        """The variant for `mode`."""
        if mode not in self.generated:
            self.generated[mode] = self.generate(mode)
        return self.generated[mode]

    def generate(self, mode: Mode, refused: list[AscendInferError] | None = None) -> Variant:
        """A new variant.

        refused: collects the statements that cannot be executed, in place of raising at the first.
        """
        context = LoweringContext(self._target, self._soc, self._stage_bytes(), refused=refused)
        parameters = ["cid", "vid", *self._parameter_names()]
        programs = []
        for kind, body in (("cube", self._lowered.cube), ("vector", self._lowered.vector)):
            codegen = CoreCodegen(
                self._func,
                kind,
                self._lowered.placements,
                context,
                mode.checks,
                deferred=mode.deferred,
                tracked=mode.tracked,
                auto_sync=self._lowered.auto_sync,
                traced=mode.traced,
                precise=mode.precise,
                short=mode.short,
                merged=mode.merged,
            )
            for name, var in self._scalars():
                codegen.writer.bind(var, name)
            for name, var in self._dimensions():
                codegen.writer.bind(var, name, EXTENTS)
            program = generate_core_program(codegen, body, parameters)
            if mode.debugged is not None:
                from kernels_npu.sim.machine.debug_program import for_debugger

                program = for_debugger(program, self._lowered, body, mode.debugged)
            programs.append(program)
        findings = [
            *lowering_findings(self._lowered, mode.checks),
            *static_findings(self._func.name, context, mode.checks),
            *one_sided_barriers(self._lowered, self._target),
        ]
        if mode.checks.redundancy and not self._lowered.auto_sync:
            findings += unshared_flags(self._func.name, programs)
            findings += idle_barriers(self._func.name, (self._lowered.cube, self._lowered.vector))
        return Variant((programs[0], programs[1]), tuple(findings))

    def _stage_bytes(self) -> dict[str, int]:
        """How much of L0A and L0B belongs to buffers of the kernel."""
        return {name: self._lowered.used_bytes.get(name, 0) for name in ("L0A", "L0B")}

    def _scalars(self) -> list[tuple[str, ir.Var]]:
        return [
            (f"a{param.uid}", param) for param in self._func.params if isinstance(param, ir.Var)
        ]

    def _dimensions(self) -> list[tuple[str, ir.Var]]:
        return [(f"d{var.uid}", var) for var in symbolic_dims(self._func)]

    def _parameter_names(self) -> list[str]:
        names = [name for name, _ in (*self._scalars(), *self._dimensions())]
        for index in range(len(self._func.tensors)):
            names += [f"G{index}", f"F{index}"]
        return names
