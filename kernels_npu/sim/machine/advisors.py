"""What advises on one kernel's synchronisation; made when the first finding needs it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from kernels_npu.sim import ir
from kernels_npu.sim.machine.cross_advice import CrossAdvisor
from kernels_npu.sim.machine.program_map import ProgramMap
from kernels_npu.sim.machine.sites import Site
from kernels_npu.sim.machine.sync_advice import FlagAdvisor


class Advisors:
    """Maps of a kernel's programs and the advice that they allow.

    combined: the compiler separates the core types itself.
    """

    def __init__(
        self,
        func: ir.PrimFunc,
        cube: tuple[ir.Stmt, ...],
        vector: tuple[ir.Stmt, ...],
        *,
        combined: bool,
    ) -> None:
        self.func = func
        self._bodies = (cube, vector)
        self._combined = combined
        self._flags: dict[int, FlagAdvisor] = {}

    @cached_property
    def programs(self) -> tuple[ProgramMap, ProgramMap]:
        """The programs of the cube and of the vector cores."""
        cube, vector = self._bodies
        return ProgramMap(cube), ProgramMap(vector)

    @cached_property
    def cross(self) -> CrossAdvisor:
        """Advice between the cores of a block."""
        return CrossAdvisor(self.func, self.programs, combined=self._combined)

    def flags(self, core: int, sites: Sequence[Site]) -> FlagAdvisor:
        """Advice between the pipes of a core (0 AIC, else AIV) whose program has `sites`."""
        kind = min(core, 1)
        if kind not in self._flags:
            self._flags[kind] = FlagAdvisor(self.programs[kind], sites)
        return self._flags[kind]
