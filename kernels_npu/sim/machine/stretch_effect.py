"""What a stretch of steps does to the monitor, worked out before it is executed.

Between the start and the end of a stretch the clocks of a core change in a way that its steps alone
determine. What a pipe knows at some point of it is what some pipes and waited-for flags knew at the
start (`sources`), and of some pipes everything up to a point within the stretch (`learned`).
So one analysis answers, for all executions: which accesses are ordered whatever came before, which
must be compared with the state at the start, and what state is left behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from kernels_npu.sim.machine.cells import Cell
from kernels_npu.sim.machine.shadow import PIPE_INDEX, ElementTrace
from kernels_npu.sim.machine.stretch_steps import (
    BarrierStep,
    Event,
    FenceStep,
    IssueStep,
    PipeBarrierStep,
    SetStep,
    SiteStep,
    Step,
    UsedEventsStep,
    WaitStep,
)

_SCALAR, _VECTOR = PIPE_INDEX["S"], PIPE_INDEX["V"]

#: Whether an access writes, its range, and the single elements of its memory, if any are touched.
Access = tuple[bool, Cell, ElementTrace | None]


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What `pipe` knows at some point.

    sources: pipes, as their number, and waited-for flags, as -1 for the first, -2 for the second.
    learned: of these pipes everything until they had made so many steps since the start.
    """

    pipe: int
    sources: frozenset[int]
    learned: tuple[tuple[int, int], ...] = ()

    def joined(self, other: Knowledge) -> Knowledge:
        """What the pipe knows after it has waited for `other`."""
        learned = dict(self.learned)
        for pipe, time in other.learned:
            learned[pipe] = max(time, learned.get(pipe, time))
        sources = self.sources | other.sources
        return Knowledge(self.pipe, sources, tuple(sorted(learned.items())))

    def until(self, pipe: int, time: int) -> Knowledge:
        """The same and all of `pipe` until `time`."""
        return self.joined(Knowledge(self.pipe, frozenset(), ((pipe, time),)))

    def time_of(self, pipe: int) -> int:
        """Until when within the stretch everything of `pipe` is known; -1: only what came before
        the start."""
        return dict(self.learned).get(pipe, -1)


@dataclass(frozen=True, slots=True)
class AccessOf:
    """An access by `pipe` after it had made `time` steps."""

    cell: Cell
    pipe: int
    time: int
    site: int
    write: bool


@dataclass(frozen=True, slots=True)
class StartCheck:
    """An access to be compared with what was done to its range before the stretch."""

    cell: Cell
    write: bool
    knowledge: Knowledge
    elements: ElementTrace | None


@dataclass(frozen=True, slots=True)
class PushedFlag:
    """A flag that is set when the stretch ends; `knowledge` is what it carries."""

    event: Event
    knowledge: Knowledge
    site: int


@dataclass(eq=False)
class CellEffect:
    """The last write of a range within the stretch, and the reads after it."""

    write: AccessOf | None = None
    reads: dict[int, AccessOf] = field(default_factory=dict)


@dataclass(eq=False)
class Effect:
    """The outcome. set_before: per event whether it must be set when the stretch starts.

    waits: events whose flags from before are taken, in order. steps: by how much each pipe's epoch
    advances. after: what the pipes know in the end, where that has changed. issues: how often each
    site is executed. barriers: over all pipes; `at_barrier` is what everyone knows from the last.
    """

    set_before: dict[Event, bool]
    waits: list[Event]
    pushed: list[PushedFlag]
    checks: list[StartCheck]
    cells: dict[Cell, CellEffect]
    steps: dict[int, int]
    after: list[Knowledge]
    counted: bool
    issues: dict[int, int]
    barriers: int
    at_barrier: Knowledge | None

    @property
    def pipes(self) -> Iterator[int]:
        """The pipes whose clocks at the start matter."""
        known = [c.knowledge for c in self.checks] + [f.knowledge for f in self.pushed]
        if self.at_barrier is None:
            # A pipe that is told something must have seen what the scalar unit waited for.
            known += self.after
        yield from sorted({p for k in known for p in (k.pipe, *k.sources) if p >= 0})


class Unsuited(Exception):
    """The steps report something, or depend on more than is worked out here."""


class _Analysis:
    def __init__(self, sites: dict[int, tuple[int, Sequence[Access]]]) -> None:
        self._sites = sites
        self._known: dict[int, Knowledge] = {}
        self._steps: dict[int, int] = {}
        self._set_before: dict[Event, bool] = {}
        self._flags: dict[Event, PushedFlag | None] = {}
        self._waits: list[Event] = []
        self._accesses: list[AccessOf] = []
        self._checks: dict[tuple[int, int, bool], StartCheck] = {}
        self._cells: dict[Cell, CellEffect] = {}
        self._barriers = 0
        self._at_barrier: Knowledge | None = None

    def run(self, steps: Sequence[Step]) -> Effect:
        for step in steps:
            self._step(step)
        after = [k for k in self._known.values() if k != self._at_first(k.pipe)]
        return Effect(
            set_before=self._set_before,
            waits=self._waits,
            pushed=[flag for flag in self._flags.values() if flag is not None],
            checks=list(self._checks.values()),
            cells=self._cells,
            steps=self._steps,
            after=after,
            counted=bool(self._accesses) or _SCALAR in self._steps,
            issues=Counter(step.site for step in steps if isinstance(step, IssueStep)),
            barriers=self._barriers,
            at_barrier=self._at_barrier,
        )

    def _step(self, step: Step) -> None:
        if isinstance(step, SiteStep):
            pipe, accesses = self._sites[step.site]
            for write, cell, elements in accesses:
                self._access(AccessOf(cell, pipe, self._time(pipe), step.site, write), elements)
        elif isinstance(step, FenceStep):
            self._join(step.dst, self._release(step.src))
        elif isinstance(step, SetStep):
            self._set(step)
        elif isinstance(step, WaitStep):
            self._wait(step)
        elif isinstance(step, UsedEventsStep):
            for event in step.events:
                if self._is_set(event, assumed=False):
                    raise Unsuited("an event that an operation uses is set")
        elif isinstance(step, PipeBarrierStep):
            pipe = PIPE_INDEX[step.pipe]
            self._known[pipe] = self._of(pipe).until(pipe, self._time(pipe))
            self._steps[pipe] = self._time(pipe) + 1
        elif isinstance(step, BarrierStep):
            self._barrier()

    # ------------------------------------------------------------------ clocks

    def _at_first(self, pipe: int) -> Knowledge:
        """What a pipe knows that was told nothing: since the last barrier, or since the start."""
        if self._at_barrier is None:
            return Knowledge(pipe, frozenset({pipe}))
        return replace(self._at_barrier, pipe=pipe)

    def _of(self, pipe: int) -> Knowledge:
        return self._known.get(pipe) or self._at_first(pipe)

    def _time(self, pipe: int) -> int:
        return self._steps.get(pipe, 0)

    def _release(self, src: str) -> Knowledge:
        pipe = PIPE_INDEX[src]
        released = self._of(pipe)
        # The vector unit's flag covers the scalar unit (see `Monitor.release`).
        for covered in (pipe, _SCALAR) if pipe == _VECTOR else (pipe,):
            time = self._time(covered)
            released = released.until(covered, time)
            self._steps[covered] = time + 1
        return released

    def _join(self, dst: str, released: Knowledge) -> None:
        pipe = PIPE_INDEX[dst]
        self._known[pipe] = self._of(pipe).joined(released)

    def _barrier(self) -> None:
        everything = tuple((pipe, self._time(pipe)) for pipe in PIPE_INDEX.values())
        self._at_barrier = Knowledge(_SCALAR, frozenset(), everything)
        self._barriers += 1
        self._known.clear()
        for pipe, time in everything:
            self._steps[pipe] = time + 1

    # ------------------------------------------------------------------ flags

    def _is_set(self, event: Event, *, assumed: bool) -> bool:
        """Whether `event` is set now; if that is open, it was `assumed` when the stretch began."""
        if event not in self._set_before:
            self._set_before[event] = assumed
            self._flags[event] = None
            return assumed
        if self._flags[event] is not None:
            return True
        return self._set_before[event] and event not in self._waits

    def _set(self, step: SetStep) -> None:
        if self._is_set(step.event, assumed=False):
            raise Unsuited("an event is set twice")
        self._flags[step.event] = PushedFlag(step.event, self._release(step.event[0]), step.site)

    def _wait(self, step: WaitStep) -> None:
        if not self._is_set(step.event, assumed=True):
            raise Unsuited("a wait without a set")
        flag = self._flags[step.event]
        if flag is not None:
            self._flags[step.event] = None
            self._join(step.event[1], flag.knowledge)
            return
        self._waits.append(step.event)
        self._join(step.event[1], Knowledge(-1, frozenset({-len(self._waits)})))

    # ------------------------------------------------------------------ accesses

    def _access(self, access: AccessOf, elements: ElementTrace | None) -> None:
        cell, pipe, known = access.cell, access.pipe, self._of(access.pipe)
        unordered = (pipe, _VECTOR + _SCALAR - pipe) if pipe in (_VECTOR, _SCALAR) else (pipe,)
        for older in self._accesses:
            if (
                (older.write or access.write)
                and older.pipe not in unordered
                and older.time > known.time_of(older.pipe)
                and older.cell in cell.overlaps
            ):
                raise Unsuited("a hazard within the stretch")
        # A pipe only learns: what its first access was ordered after, its later ones are as well.
        checked = self._checks.get((id(cell), pipe, True))
        if checked is None and not access.write:
            checked = self._checks.get((id(cell), pipe, False))
        if checked is None and self._at_barrier is None:
            check = StartCheck(cell, access.write, known, elements)
            self._checks[(id(cell), pipe, access.write)] = check
        self._accesses.append(access)
        effect = self._cells.setdefault(cell, CellEffect())
        if access.write:
            effect.write = access
            effect.reads.clear()
        else:
            effect.reads[pipe] = access


def analyse(steps: Sequence[Step], sites: dict[int, tuple[int, Sequence[Access]]]) -> Effect:
    """The effect of `steps`.

    sites: per site its pipe's number and its accesses that can take part in a hazard.

    Raises:
        Unsuited: the steps must be made one by one.
    """
    return _Analysis(sites).run(steps)
