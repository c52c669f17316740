"""Makes the steps of a stretch: one by one at first, all at once when they repeat."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

from kernels_npu.sim.machine.access_checks import SiteCheck
from kernels_npu.sim.machine.block_state import BlockState
from kernels_npu.sim.machine.core_runtime import CoreRuntime
from kernels_npu.sim.machine.monitor import Monitor
from kernels_npu.sim.machine.shadow import AGENTS_PER_CORE, PIPE_INDEX
from kernels_npu.sim.machine.stretch_code import function_of
from kernels_npu.sim.machine.stretch_effect import Unsuited, analyse
from kernels_npu.sim.machine.stretch_steps import (
    BarrierStep,
    FenceStep,
    IssueStep,
    SetStep,
    SiteStep,
    Step,
    UsedEventsStep,
    WaitStep,
)

#: Executions before a stretch is worked out, which costs as much as some hundred of its steps.
WARM_UP = 32


class Stamp:
    """When all bytes that a stretch reads were last seen written, and its own marked so.

    serial: the block. losses: how often its memories had lost data.
    """

    def __init__(self, state: BlockState, checks: Sequence[SiteCheck]) -> None:
        self._state = state
        self._checks = [check for check in checks if check.uninitialised]
        self.serial = -1
        self.losses = -1

    def renew(self) -> None:
        """After the steps were made one by one."""
        settled = all(check.is_settled() for check in self._checks)
        self.serial = self._state.serial if settled else -1
        self.losses = self._state.losses.count


class StretchCheck:
    """One stretch on one core; call `run`, which replaces itself in `names` in time."""

    def __init__(
        self,
        runtime: CoreRuntime,
        steps: tuple[Step, ...],
        checks: Mapping[int, SiteCheck],
        counts: list[int],
        names: dict[str, object],
        name: str,
    ) -> None:
        self._runtime = runtime
        self._steps = steps
        self._checks = {s.site: checks[s.site] for s in steps if isinstance(s, SiteStep)}
        self._counts = counts
        self._calls = [self._call(step) for step in steps]
        self._names = names
        self._name = name
        self._stamp = Stamp(runtime.state, list(self._checks.values()))
        # What is known of the scalar unit tells other cores which of their flags it has taken.
        self._active = {PIPE_INDEX[s.pipe] for s in runtime.sites if s.footprints or s.pipe == "S"}
        self._warm_up = WARM_UP

    def run(self) -> None:
        """Make the steps one by one."""
        self._plainly()
        self._warm_up -= 1
        if self._warm_up == 0:
            self._names[self._name] = self._at_once() or self._plainly

    def _one_by_one(self) -> None:
        self._plainly()
        self._stamp.renew()

    def _plainly(self) -> None:
        for call in self._calls:
            call()

    def _at_once(self) -> Callable[[], object] | None:
        """A function that makes all steps, None where that cannot be done."""
        state = self._runtime.state
        if type(state.monitor) is not Monitor:
            return None  # it is to see every step
        steps = self._steps
        if state.auto_sync:
            # A core is one agent, whose flags and barriers order nothing.
            steps = tuple(step for step in steps if not isinstance(step, BarrierStep))
            if not all(isinstance(step, (SiteStep, IssueStep)) for step in steps):
                return None
        sites = {
            number: (check.agent % AGENTS_PER_CORE, check.racing)
            for number, check in self._checks.items()
        }
        try:
            effect = analyse(steps, sites)
        except Unsuited:
            return None
        return function_of(
            effect,
            state.monitor,
            self._runtime.number,
            self._active,
            S=state,
            R=self._runtime,
            counts=self._counts,
            losses=state.losses,
            stamp=self._stamp,
            slow=self._one_by_one,
        )

    def _count(self, site: int) -> None:
        self._counts[site] += 1

    def _call(self, step: Step) -> Callable[[], object]:
        runtime = self._runtime
        if isinstance(step, SiteStep):
            return self._checks[step.site].run
        if isinstance(step, IssueStep):
            return functools.partial(self._count, step.site)
        if isinstance(step, FenceStep):
            return functools.partial(runtime.fence, step.src, step.dst)
        if isinstance(step, SetStep):
            return functools.partial(runtime.set_flag, step.site, *step.event)
        if isinstance(step, WaitStep):
            return functools.partial(runtime.wait_flag, step.site, *step.event)
        if isinstance(step, UsedEventsStep):
            return functools.partial(runtime.hidden_events, step.site, step.events)
        if isinstance(step, BarrierStep):
            return functools.partial(runtime.barrier, step.site)
        return functools.partial(runtime.pipe_barrier, step.pipe)
