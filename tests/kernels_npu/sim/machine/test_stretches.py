"""Stretches of checks and flags: made at once they do what their steps do one by one."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels_npu.dialect import T, tilelang
from kernels_npu.errors import SourceLocation
from kernels_npu.sim import ir
from kernels_npu.sim.machine import stretch_check
from kernels_npu.sim.machine.cells import Cell
from kernels_npu.sim.machine.element_trace import record_of
from kernels_npu.sim.machine.monitor import Monitor
from kernels_npu.sim.machine.shadow import AGENTS_PER_CORE, PIPE_INDEX, ShadowMemory
from kernels_npu.sim.machine.stretch_code import function_of
from kernels_npu.sim.machine.stretch_effect import Unsuited, analyse
from kernels_npu.sim.machine.stretch_steps import (
    BarrierStep,
    FenceStep,
    IssueStep,
    Line,
    PipeBarrierStep,
    SetStep,
    SiteStep,
    Step,
    UsedEventsStep,
    WaitStep,
    merge_steps,
)

PIPES = ("MTE1", "MTE2", "MTE3", "M", "V", "FIX")
#: Ranges of a memory of 96 bytes, most of which overlap others.
RANGES = ((0, 32), (0, 64), (32, 32), (64, 32), (48, 32))
#: site -> (pipe, [(write, range)])
SITES = {
    n: (pipe, accesses)
    for n, (pipe, accesses) in enumerate(
        [
            ("MTE2", [(True, 0)]),
            ("MTE2", [(True, 1)]),
            ("V", [(False, 0), (True, 2)]),
            ("V", [(False, 1), (False, 2), (True, 3)]),
            ("MTE3", [(False, 3)]),
            ("MTE3", [(False, 1)]),
            ("M", [(False, 4), (True, 0)]),
            ("MTE1", [(False, 4)]),
            ("V", [(True, 0)]),
            ("V", [(False, 0)]),
        ]
    )
}
#: What happens between the other steps of a round and the stretch.
ORDERS = ("none", "signal", "barrier", "barrier", "read", "write")
EVENTS = (("MTE2", "V", 0), ("V", "MTE3", 0), ("MTE3", "MTE2", 1), ("V", "MTE2", 0))

pipes = st.sampled_from(PIPES)
steps = st.one_of(
    st.builds(SiteStep, st.sampled_from(sorted(SITES))),
    st.builds(SiteStep, st.sampled_from(sorted(SITES))),
    st.builds(IssueStep, st.sampled_from(sorted(SITES))),
    st.builds(FenceStep, pipes, pipes),
    st.builds(SetStep, st.integers(20, 29), st.sampled_from(EVENTS)),
    st.builds(WaitStep, st.integers(30, 39), st.sampled_from(EVENTS)),
    st.builds(PipeBarrierStep, pipes),
    st.just(BarrierStep(50)),
    st.builds(UsedEventsStep, st.just(40), st.sampled_from(EVENTS).map(lambda e: (e,))),
)
#: An access, and flags that tell some pipes of it.
ordered = st.builds(
    lambda site, told: [SiteStep(site), *(FenceStep(SITES[site][0], pipe) for pipe in told)],
    st.sampled_from(sorted(SITES)),
    st.lists(pipes, max_size=4, unique=True),
)
stretches = st.one_of(
    st.lists(steps, min_size=1, max_size=14),
    st.lists(st.one_of(ordered, ordered, steps.map(lambda step: [step])), max_size=8).map(
        lambda parts: [step for part in parts for step in part]
    ),
)


class Machine:
    """A core with a monitor that logs what it reports."""

    def __init__(self, core: int) -> None:
        self.core = core
        self.log: list[object] = []
        self.monitor = Monitor(False, self._hazard, slots=1)
        self.counts = [0] * len(SITES)
        self.memory = memory = ShadowMemory("UB", 96)
        self.trace = memory.trace(4)
        self.cells = [memory.cell(start, 1, size, size) for start, size in RANGES]

    def _hazard(self, *what: Any) -> None:
        self.log.append([w.place if isinstance(w, Cell) else w for w in what])

    def make(self, step: Step) -> None:
        """One step, as the run-time services make it."""
        monitor, core = self.monitor, self.core
        if isinstance(step, SiteStep):
            pipe, accesses = SITES[step.site]
            agent = monitor.agent(core, pipe)
            for write, number in accesses:
                cell = self.cells[number]
                monitor.against_elements(agent, self.trace, cell, step.site, write=write)
                access = monitor.write if write else monitor.read
                access(agent, cell, step.site)
        elif isinstance(step, IssueStep):
            self.counts[step.site] += 1
        elif isinstance(step, FenceStep):
            monitor.fence(core, step.src, step.dst)
        elif isinstance(step, SetStep):
            if monitor.set_flag(core, *step.event, step.site) > 1:
                self.log.append(step)
        elif isinstance(step, WaitStep):
            if not monitor.wait_flag(core, *step.event):
                self.log.append(step)
        elif isinstance(step, PipeBarrierStep):
            monitor.pipe_barrier(core, step.pipe)
        elif isinstance(step, BarrierStep):
            monitor.barrier(core)
        else:
            self.log += [e for e in step.events if monitor.outstanding(core, *e)]

    def touch(self, start: int, *, write: bool) -> None:
        """The scalar unit reads or writes four bytes."""
        cells = self.memory.at(start, start + 4)
        scalar = self.monitor.agent(self.core, "S")
        clock = self.monitor.touch_element(scalar, cells, Cell(start, 1, 4, 0), 60, write=write)
        self.trace.buffer(start, 1, 4, write=write)[0] = record_of(clock, 60)
        if write:
            self.trace.last_write = clock
        else:
            self.trace.last_read = clock

    def at_once(self, stretch: list[Step]) -> Callable[[], object]:
        """A function that makes `stretch`."""
        sites = {
            n: (
                PIPE_INDEX[pipe],
                [(write, self.cells[c], self.trace) for write, c in accesses],
            )
            for n, (pipe, accesses) in SITES.items()
        }
        stamp = SimpleNamespace(serial=0, losses=0)
        return function_of(
            analyse(stretch, sites),
            self.monitor,
            self.core,
            set(PIPE_INDEX.values()),
            S=SimpleNamespace(serial=0, monitor=self.monitor),
            R=SimpleNamespace(watch=None),
            counts=self.counts,
            losses=SimpleNamespace(count=0),
            stamp=stamp,
            slow=lambda: [self.make(step) for step in stretch],
        )

    def state(self) -> tuple[object, ...]:
        """All that later checks depend on. When a pipe looks at its scalar unit does not count."""
        monitor, first = self.monitor, self.core * AGENTS_PER_CORE
        for pipe in range(AGENTS_PER_CORE - 1):
            monitor.refresh(first + pipe, self.core)

        def used(clock: list[int]) -> list[int]:
            return clock[: len(PIPE_INDEX)]

        known = [used(clock) for clock in monitor.lists()["LOCAL"]]
        foreign = [[used(clock) for clock in clocks] for clocks in monitor.lists()["FOREIGN"]]
        flags = {
            event: [
                (used(clock), version, list(map(used, clocks)), site)
                for (clock, version, clocks), site in monitor.flag_queue(self.core, *event)
            ]
            for event in EVENTS
        }
        numbers = [monitor.lists()[name] for name in ("OWN", "SEEN", "ISSUED", "VERSION")]
        cells = [(c.writer, c.write_clock, c.write_site, c.readers) for c in self.cells]
        return known, foreign, flags, numbers, cells, self.counts


def compare(stretch: list[Step], rounds: list[tuple[list[Step], str]], core: int = 0) -> None:
    """Make `stretch` at once and one by one, each time after other steps and what orders them."""
    one_by_one, merged = Machine(core), Machine(core)
    try:
        at_once = merged.at_once(stretch)
    except Unsuited:
        return
    for others, order in rounds:
        for machine in (one_by_one, merged):
            for step in others:
                machine.make(step)
            monitor = machine.monitor
            if order == "barrier":
                monitor.barrier(core)
            elif order in ("read", "write"):
                machine.touch(40, write=order == "write")
            elif order == "signal":  # the scalar unit learns something from another core
                monitor.take_from_cores(core, monitor.release_to_cores((core + 1) % 3, "FIX"))
        for step in stretch:
            one_by_one.make(step)
        at_once()
        assert merged.log == one_by_one.log
        assert merged.state() == one_by_one.state()


@settings(max_examples=1000, deadline=None)
@given(
    stretch=stretches,
    rounds=st.lists(
        st.tuples(st.lists(steps, max_size=3), st.sampled_from(ORDERS)),
        min_size=3,
        max_size=8,
    ),
    core=st.integers(0, 2),
)
def test_a_stretch_does_what_its_steps_do(
    stretch: list[Step], rounds: list[tuple[list[Step], str]], core: int
) -> None:
    compare(stretch, rounds, core)


def test_an_old_flag_tells_less_than_a_new_one() -> None:
    flag = EVENTS[0]
    stretch = [SetStep(20, flag), FenceStep("MTE2", "V"), WaitStep(30, flag), SiteStep(2)]
    compare(stretch, [([], "none")] * 3)


def test_a_write_after_a_read_by_the_same_pipe_is_compared_with_reads() -> None:
    compare([SiteStep(9), SiteStep(8)], [([], "barrier"), ([SiteStep(5)], "none")])


def test_steps_that_report_are_made_one_by_one() -> None:
    sites = {0: (PIPE_INDEX["MTE2"], [(True, cell := Cell(0, 1, 32, 0), None)])}
    sites[1] = (PIPE_INDEX["V"], [(False, cell, None)])
    flag = ("MTE2", "V", 0)
    for stretch in (
        [SiteStep(0), SiteStep(1)],  # no wait between write and read
        [SetStep(2, flag), SetStep(3, flag)],
        [SetStep(2, flag), UsedEventsStep(3, (flag,))],
        [WaitStep(2, flag), WaitStep(3, flag)],
    ):
        with pytest.raises(Unsuited):
            analyse(stretch, sites)
    fine = [SiteStep(0), SetStep(2, flag), WaitStep(3, flag), SiteStep(1)]
    effect = analyse(fine, sites)
    assert effect.set_before == {flag: False} and not effect.pushed


def lines(*texts: str) -> list[Line]:
    """Lines of a program: checks `c`, counts `n`, kernels `k`, anything else stays in its place."""
    stmt = ir.Break(loc=SourceLocation("kernel.py", 1))
    made = []
    for text in texts:
        kind, number = text.strip()[0], text.strip()[1:]
        step = {"c": SiteStep, "n": IssueStep}.get(kind)
        made.append(Line(text, stmt, step(int(number)) if step else None, inert=kind == "k"))
    return made


def test_steps_move_up_past_lines_that_tell_nothing() -> None:
    merged, stretches = merge_steps(
        lines(
            "    c0",
            "    n0",
            "    k0",
            "    c1",
            "    n1",
            "    k1",
            "    yield",
            "    c2",
            "    n2",
        )
    )
    texts = [line.text for line in merged]
    assert texts == ["    g0()", "    k0", "    n1", "    k1", "    yield", "    c2", "    n2"]
    assert stretches == [(SiteStep(0), IssueStep(0), SiteStep(1))]


def test_a_branch_ends_a_stretch() -> None:
    merged, stretches = merge_steps(
        lines("    c0", "    if x:", "        c1", "        c2", "    c3", "    c4")
    )
    texts = [line.text for line in merged]
    assert texts == ["    c0", "    if x:", "        g0()", "    g1()"]
    assert [len(steps) for steps in stretches] == [2, 2]


@tilelang.jit(out_idx=[1], target="ascendc")
def forgetful_loop(rounds, broken):
    """Doubles tiles, one after another; from round `broken` on the store is not waited for."""

    @T.prim_func
    def forgetful(x: T.Tensor([rounds, 64], "float32"), y: T.Tensor([rounds, 64], "float32")):
        with T.Kernel(1, is_npu=True) as (_cid, vid):
            a = T.alloc_ub([1, 64], "float32")
            b = T.alloc_ub([1, 64], "float32")
            with T.Scope("V"):
                if vid == 0:
                    for i in T.serial(rounds):
                        T.copy(x[i : i + 1, :], a)
                        T.set_flag("mte2", "v", 0)
                        T.wait_flag("mte2", "v", 0)
                        T.tile.add(b, a, a)
                        T.set_flag("v", "mte3", 0)
                        T.wait_flag("v", "mte3", 0)
                        T.copy(b, y[i : i + 1, :])
                        T.set_flag("v", "mte2", 0)
                        T.wait_flag("v", "mte2", 0)
                        T.set_flag("mte3", "v", 0)
                        if i < broken:
                            T.wait_flag("mte3", "v", 0)

    return forgetful


@pytest.mark.parametrize("broken", [1000, 150])
def test_a_hazard_after_many_clean_rounds_is_found(
    launch: Callable[..., Any], rng: np.random.Generator, broken: int
) -> None:
    rounds = 200
    assert broken > rounds or broken > 2 * stretch_check.WARM_UP
    x = rng.standard_normal((rounds, 64)).astype(np.float32)
    result = launch(forgetful_loop(rounds, broken), x)
    races = [f.count for f in result.record.findings if f.code == "AI-RACE-002"]
    assert races == ([] if broken > rounds else [rounds - broken - 1])
    np.testing.assert_array_equal(result.outputs[0], x + x)
