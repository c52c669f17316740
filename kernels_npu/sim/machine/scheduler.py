"""Runs the cores of the blocks that are alive together, under one of the schedules.

A core's program yields when it must wait: `None` (others may go first), `('cross', flag, site)`,
`('drain', pipes)`, `('flag', src, event, site)` or `('sync_all', core numbers, site)`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kernels_npu.sim.machine.binding import BoundCore
from kernels_npu.sim.machine.deadlock import deadlock_finding
from kernels_npu.sim.machine.deferred import DOWNSTREAM_FIRST


@dataclass(eq=False)
class Running:
    """A core in flight: its coroutine and what it waits for."""

    core: BoundCore
    steps: Iterator[Any]
    waiting: tuple[Any, ...] | None = None
    finished: bool = False


#: For the schedules that never draw: seeding a generator costs as much as a small launch.
_NO_CHOICE = random.Random(0)


class Scheduler:
    """Drives the cores to their end.

    schedule: `eager` never has pending instructions; `late` issues everything it can and completes
    the most downstream instruction first; `random` chooses among all legal steps.
    """

    def __init__(self, schedule: str, seed: int) -> None:
        self._schedule = schedule
        self._random = random.Random(seed) if schedule == "random" else _NO_CHOICE

    def run(self, cores: list[Running]) -> None:
        """Run until all cores are finished and drained, or report a deadlock."""
        while True:
            progressed = self._issue(cores)
            if self._schedule != "eager":
                progressed = self._complete(cores, drain=not progressed) or progressed
            if not progressed and self._schedule == "random":
                progressed = self._issue(cores, hold_back=False)
            if all(c.finished and not self._pending(c) for c in cores):
                return
            if not progressed:
                log = cores[0].core.runtime.state.launch.log
                log.add(("deadlock",), deadlock_finding(cores))
                return

    # ------------------------------------------------------------------ scalar units

    def _issue(self, cores: list[Running], *, hold_back: bool = True) -> bool:
        """Advance each core that can go on; `random` takes any order and may hold some back."""
        order = list(cores)
        if self._schedule == "random":
            self._random.shuffle(order)
        progressed = False
        for running in order:
            if running.finished or not self._may_continue(running, cores):
                continue
            if hold_back and self._schedule == "random" and self._random.random() < 0.5:
                continue
            if running.waiting is not None and running.waiting[0] == "flag":
                self._take_flag(running)
            running.waiting = None
            progressed = True
            try:
                running.waiting = next(running.steps)
            except StopIteration:
                running.finished = True
        return progressed

    def _may_continue(self, running: Running, cores: list[Running]) -> bool:
        waiting = running.waiting
        if waiting is None:
            return True
        kind = waiting[0]
        core = running.core
        if kind == "cross":
            return core.runtime.cross_ready(waiting[1])
        if kind == "drain":
            return core.queues is None or core.queues.idle(waiting[1])
        if kind == "flag":
            key = (waiting[1], "S", waiting[2])
            return core.queues is None or core.queues.events.ready(key)
        return self._all_at_barrier(waiting[1], cores)

    @staticmethod
    def _take_flag(running: Running) -> None:
        waiting, queues = running.waiting, running.core.queues
        if waiting is not None and queues is not None:
            queues.events.take((waiting[1], "S", waiting[2]))

    @staticmethod
    def _all_at_barrier(kinds: tuple[int, ...], cores: list[Running]) -> bool:
        """`sync_all`: the last core to arrive releases everyone."""
        members = [c for c in cores if c.core.index in kinds]
        if any(c.waiting is None or c.waiting[0] != "sync_all" for c in members):
            return False
        members[0].core.runtime.join([c.core.runtime.number for c in members])
        for core in members:
            core.waiting = None
        return True

    # ------------------------------------------------------------------ pipes

    @staticmethod
    def _pending(running: Running) -> bool:
        return running.core.queues is not None and running.core.queues.pending()

    def _complete(self, cores: list[Running], *, drain: bool) -> bool:
        """Let pending instructions take effect: one forced step (`late`) or a random few."""
        if self._schedule == "late":
            return drain and self._forced_step(cores)
        choices = [(c, p) for c in cores if self._pending(c) for p in DOWNSTREAM_FIRST]
        self._random.shuffle(choices)
        budget = self._random.randint(1, 4)
        done = 0
        for running, pipe in choices:
            assert running.core.queues is not None
            while done < budget and running.core.queues.step(pipe):
                done += 1
                if self._random.random() < 0.5:
                    break
            if done >= budget:
                break
        return done > 0

    @staticmethod
    def _forced_step(cores: list[Running]) -> bool:
        for pipe in DOWNSTREAM_FIRST:
            for running in cores:
                queues = running.core.queues
                if queues is not None and queues.step(pipe):
                    return True
        return False
