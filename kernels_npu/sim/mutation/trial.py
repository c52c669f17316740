"""One kernel with recorded arguments, run again with synchronisation deleted."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kernels_npu.errors import AscendInferError
from kernels_npu.sim import ir
from kernels_npu.sim.config import Checks, SimConfig
from kernels_npu.sim.machine import CompiledKernel, LaunchRecord
from kernels_npu.sim.machine.arguments import bind_arguments
from kernels_npu.sim.machine.event_recorder import EventRecorder
from kernels_npu.sim.machine.memory import Bytes
from kernels_npu.sim.mutation.capture import Captured
from kernels_npu.sim.mutation.deletions import Deletion, Place, place_of, places, without
from kernels_npu.sim.mutation.reasons import why_redundant

FOUND, REDUNDANT, SURVIVOR = "found", "redundant", "survivor"
NOT_REACHED, NOT_TRIED = "not reached", "not tried"

SCHEDULES = (("late", 0), ("random", 0))

#: Blocks looked at to choose those that are executed, how many are, and limits of computing time.
_CANDIDATES, _CHOSEN = 24, 3
_SECONDS_TO_LOOK, _SECONDS_TO_RUN = 3.0, 0.3


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What became of a deletion.

    outcome: found, redundant, survivor, not reached or not tried. code: of the finding, `value` for
    a wrong value. schedule: under which it was found. reason: why redundant, or what is lost.
    """

    outcome: str
    code: str = ""
    schedule: str = ""
    reason: str = ""


class Trial:
    """The base of the comparison: what the complete kernel does and is told.

    checks: what may find a deletion. schedules: (name, seed) under which one is tried that the
    eager schedule does not show.
    """

    def __init__(
        self,
        captured: Captured,
        *,
        checks: Checks | None = None,
        schedules: Sequence[tuple[str, int]] = SCHEDULES,
    ) -> None:
        self._config = SimConfig(on_finding="report", checks=checks or Checks())
        self._schedules = schedules
        self.kernel = captured.kernel
        self._snapshot = captured.snapshot
        self.places = places(self.kernel.source)
        self.blocks = _representatives(captured)
        self._config = dataclasses.replace(self._config, blocks=self.blocks)
        self._known = frozenset(f.identity for f in self._base.findings)
        self._values: dict[tuple[str, int], list[Bytes]] = {}
        self._values[("eager", 0)] = self._snapshot.contents()

    @cached_property
    def _base(self) -> LaunchRecord:
        return self.kernel.launch(self._snapshot.arguments(), self._config)

    @property
    def codes(self) -> set[str]:
        """What the checks say about the complete kernel, hints aside."""
        return {f.code for f in self._base.findings if f.severity != "hint"}

    @cached_property
    def recorded(self) -> EventRecorder:
        """The happens-before graphs of the complete kernel."""
        return self._record(self.kernel)

    @cached_property
    def reached(self) -> set[Place]:
        """The places that the executed blocks come to."""
        labels = (x for e in self.recorded.executions for x in set(e.graph.labels))
        return _places_of(labels)

    @cached_property
    def pairs(self) -> set[tuple[Place, Place]]:
        """Which set met which wait, of those in the kernel's text."""
        met = ((place_of(a), place_of(b)) for a, b in self.recorded.pairs)
        return {(a, b) for a, b in met if a in self.places and b in self.places}

    def _record(self, kernel: CompiledKernel) -> EventRecorder:
        return kernel.record(self._snapshot.arguments(), self._config)

    # ------------------------------------------------------------------ a deletion

    def judge(self, deletion: Deletion) -> Verdict:
        """Delete the places, and see who notices."""
        deleted = self.places.intersection(deletion.places)
        if not deleted & self.reached:
            return Verdict(outcome=NOT_REACHED)
        source = without(self.kernel.source, deleted)
        try:
            mutant = CompiledKernel(
                source, self.kernel.target, self.kernel.pass_configs, self.kernel.soc
            )
            return self._run(mutant, deleted)
        except AscendInferError as error:
            return Verdict(outcome=FOUND, code=error.code, schedule="compilation")

    def _run(self, mutant: CompiledKernel, deleted: Collection[Place]) -> Verdict:
        verdict = self._under(mutant, "eager", 0)
        if verdict is not None:
            return verdict
        changed = self._record(mutant)
        reason = why_redundant(
            self.recorded.executions,
            changed.executions,
            deleted,
            auto_sync=self.kernel.lowered.auto_sync,
        )
        for schedule, seed in self._schedules:
            verdict = self._under(mutant, schedule, seed)
            if verdict is not None:
                return verdict
        if reason.redundant:
            return Verdict(outcome=REDUNDANT, reason=reason.text)
        return Verdict(outcome=SURVIVOR, reason=reason.text)

    def _under(self, mutant: CompiledKernel, schedule: str, seed: int) -> Verdict | None:
        """The verdict if the mutant is found out under this schedule."""
        name = schedule if schedule != "random" else f"random({seed})"
        config = dataclasses.replace(
            self._config, schedule=schedule, seed=seed, on_finding="stop", known=self._known
        )
        record = mutant.launch(self._snapshot.arguments(), config)
        new = [f for f in record.findings if f.severity != "hint" and f.identity not in self._known]
        if new:
            first = min(new, key=lambda f: f.severity != "error")
            return Verdict(outcome=FOUND, code=first.code, schedule=name)
        if self._snapshot.holds(self._values["eager", 0]):
            return None
        left = self._snapshot.contents()
        if all(map(np.array_equal, left, self._expected(schedule, seed))):
            return None
        return Verdict(outcome=FOUND, code="value", schedule=name)

    def _expected(self, schedule: str, seed: int) -> list[Bytes]:
        """What the complete kernel leaves in memory under the schedule."""
        key = (schedule, seed)
        if key not in self._values:
            config = dataclasses.replace(self._config, schedule=schedule, seed=seed)
            self.kernel.launch(self._snapshot.arguments(), config)
            self._values[key] = self._snapshot.contents()
        return self._values[key]


def _places_of(labels: Iterable[object]) -> set[Place]:
    found = (place_of(label) for label in labels if isinstance(label, ir.Stmt))
    return {place for place in found if place is not None}


def _representatives(captured: Captured) -> tuple[int, ...]:
    """The block that does most, and more that differ from it as long as they are cheap.

    Blocks are told apart by their instructions and bytes. The one with the most to do comes back to
    every slot most often: what is redundant there is redundant in the others.
    """
    kernel = captured.kernel
    args = captured.snapshot.arguments()
    grid = bind_arguments(kernel.func, args).grid
    config = SimConfig(checks=Checks.none(), on_finding="report")
    kinds: dict[Hashable, tuple[int, int, float]] = {}
    started = time.process_time()
    for block in _spread(grid):
        before = time.process_time()
        counters = kernel.launch(args, dataclasses.replace(config, blocks=(block,))).counters
        now = time.process_time()
        work = sum(counters.instructions.values())
        kind = (frozenset(counters.instructions.items()), frozenset(counters.gm_paths.items()))
        kinds.setdefault(kind, (-work, block, now - before))
        if now - started > _SECONDS_TO_LOOK:
            break
    chosen: list[int] = []
    spent = 0.0
    for _, block, seconds in sorted(kinds.values()):
        if chosen and (len(chosen) == _CHOSEN or spent + seconds > _SECONDS_TO_RUN):
            break
        chosen.append(block)
        spent += seconds
    return tuple(sorted(chosen))


def _spread(grid: int) -> list[int]:
    """Block numbers over the whole grid, the ends and the middle first."""
    found = {0: None, grid - 1: None}
    parts = 2
    while len(found) < min(grid, _CANDIDATES):
        found |= {i * (grid - 1) // parts: None for i in range(1, parts)}
        parts *= 2
    return list(found)[:_CANDIDATES]
