"""Python text that makes a whole stretch: compare with the state at its start, leave its effect.

The text calls `slow()` as soon as something is not as it must be, before it has changed anything.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Set
from types import CodeType

from kernels_npu.sim.machine.cells import Cell
from kernels_npu.sim.machine.monitor import Monitor
from kernels_npu.sim.machine.shadow import AGENTS_PER_CORE, PIPE_INDEX, ElementTrace
from kernels_npu.sim.machine.stretch_effect import Effect, Knowledge

_PIPES = tuple(PIPE_INDEX.values())
#: Later than every epoch.
_NEVER = str(1 << 62)
_SCALAR, _VECTOR = PIPE_INDEX["S"], PIPE_INDEX["V"]


class _Writer:
    """Writes the function of one effect for one core."""

    def __init__(self, effect: Effect, first: int, active: Set[int]) -> None:
        self._effect = effect
        self._first = first
        self._core = first // AGENTS_PER_CORE
        self._active = active
        cells = dict.fromkeys([*(c.cell for c in effect.checks), *effect.cells])
        self.cells: dict[Cell, str] = {cell: f"c{n}" for n, cell in enumerate(cells)}
        self.queues = {event: f"q{n}" for n, event in enumerate(effect.set_before)}
        traces = dict.fromkeys(c.elements for c in effect.checks if c.elements is not None)
        self.traces: dict[ElementTrace, str] = {trace: f"e{n}" for n, trace in enumerate(traces)}

    def text(self) -> str:
        """The source of `make(...)`, which returns the function."""
        parts = (self._guard(), self._look(), self._compare(), self._advance(), self._leave())
        body = "".join(f"        {line}\n" for part in parts for line in part)
        names = [*self.queues.values(), *self.cells.values(), *self.traces.values()]
        names += Monitor.LISTS
        return f"def make({', '.join(names)}, M, S, R, counts, losses, stamp, slow):\n" + (
            f"    def run():\n{body}    return run\n"
        )

    def _clock(self, knowledge: Knowledge, covered: frozenset[int] = frozenset()) -> str:
        """The list of epochs that `knowledge` covers; without end for the pipes in `covered`."""
        learned = dict(knowledge.learned)
        lists = [self._list(source) for source in sorted(knowledge.sources)]
        parts = []
        for pipe in _PIPES:
            if pipe in covered:
                parts.append(_NEVER)
            elif pipe in learned:
                parts.append(_plus(f"n{pipe}", learned[pipe]))
            elif pipe in self._active and len(lists) > 1:
                parts.append(_largest([f"{name}[{pipe}]" for name in lists]))
            else:
                # Of a pipe without work, any clock will do.
                parts.append(f"{lists[0]}[{pipe}]")
        return f"[{', '.join(parts)}, 0]"

    @staticmethod
    def _list(source: int) -> str:
        return f"l{source}" if source >= 0 else f"w{-source}"

    # ------------------------------------------------------------------ before anything changes

    def _guard(self) -> Iterator[str]:
        tests = ["stamp.serial != S.serial", "stamp.losses != losses.count"]
        tests += ["R.watch is not None", "S.monitor is not M"]
        for event, name in self.queues.items():
            tests.append(f"len({name}) != 1" if self._effect.set_before[event] else name)
        yield f"if {' or '.join(tests)}: return slow()"

    def _look(self) -> Iterator[str]:
        """The clocks at the start."""
        pipes = list(self._effect.pipes)
        if pipes:
            yield f"issued = ISSUED[{self._core}]"
        for pipe in pipes:
            agent = self._first + pipe
            yield f"if SEEN[{agent}] != issued: M.refresh({agent}, {self._core})"
            yield f"l{pipe} = LOCAL[{agent}]"
        for number, event in enumerate(self._effect.waits, start=1):
            yield f"w{number} = {self.queues[event]}[0][0][0]"
        acting = {e.write.pipe for e in self._effect.cells.values() if e.write is not None}
        acting |= {pipe for e in self._effect.cells.values() for pipe in e.reads}
        for pipe in sorted({*self._effect.steps, *acting}):
            yield f"n{pipe} = OWN[{self._first + pipe}]"

    def _compare(self) -> Iterator[str]:
        """What was done to the ranges before must be known, or must not matter."""
        limits: dict[str, str] = {}
        for check in self._effect.checks:
            known = check.knowledge
            # All that a pipe did before a stretch is known to those that have learned of it since.
            covered = {known.pipe, *(p for p, _ in known.learned)}
            if known.pipe in (_VECTOR, _SCALAR):
                covered.add(_VECTOR + _SCALAR - known.pipe)
            clock = self._clock(known, frozenset(covered))
            if clock not in limits:
                limits[clock] = f"k{len(limits)}"
                yield f"{limits[clock]} = {clock}"
            limit = limits[clock]
            if check.elements is not None and _SCALAR not in covered:
                # Not which elements were touched: that is asked when it may matter.
                trace = self.traces[check.elements]
                tests = [f"{trace}.last_write > {limit}[{_SCALAR}]"]
                if check.write:
                    tests.append(f"{trace}.last_read > {limit}[{_SCALAR}]")
                yield f"if {' or '.join(tests)}: return slow()"
            yield f"for o in {self.cells[check.cell]}.overlaps:"
            yield f"    if o.write_clock > {limit}[o.writer & 7]: return slow()"
            if check.write:
                yield "    for a, t in o.readers.items():"
                yield f"        if t[0] > {limit}[a & 7]: return slow()"

    # ------------------------------------------------------------------ changes

    def _advance(self) -> Iterator[str]:
        """Clocks and flags."""
        effect = self._effect
        for event in effect.waits:
            yield f"{self.queues[event]}.popleft()"
        for flag in effect.pushed:
            agent = self._first + flag.knowledge.pipe
            release = f"({self._clock(flag.knowledge)}, VERSION[{agent}], FOREIGN[{agent}])"
            yield f"{self.queues[flag.event]}.append(({release}, {flag.site}))"
        if effect.at_barrier is not None:
            # The scalar unit waits for all pipes; they learn of it when they act next.
            yield f"LOCAL[{self._first}] = {self._clock(effect.at_barrier)}"
            yield f"ISSUED[{self._core}] += {effect.barriers}"
        for known in effect.after:
            yield f"LOCAL[{self._first + known.pipe}] = {self._clock(known)}"
        for pipe, steps in effect.steps.items():
            yield f"OWN[{self._first + pipe}] = n{pipe} + {steps}"
        if effect.counted:
            yield f"CHANGES[{self._core}] += 1"
        for site, count in effect.issues.items():
            yield f"counts[{site}] += {count}"

    def _leave(self) -> Iterator[str]:
        """What was done to the ranges.

        Whether one was written more than once is asked of global memory only, which has no place in
        a stretch.
        """
        for cell, effect in self._effect.cells.items():
            name, write = self.cells[cell], effect.write
            if write is not None:
                yield f"{name}.writer = {self._first + write.pipe}"
                yield f"{name}.write_clock = {_plus(f'n{write.pipe}', write.time)}"
                yield f"{name}.write_site = {write.site}"
                yield f"if {name}.readers: {name}.readers.clear()"
            for pipe, read in effect.reads.items():
                agent = self._first + pipe
                yield f"{name}.readers[{agent}] = ({_plus(f'n{pipe}', read.time)}, {read.site})"


def _plus(text: str, number: int) -> str:
    return f"{text} + {number}" if number else text


def _largest(texts: list[str]) -> str:
    if len(texts) > 2:
        return f"max({', '.join(texts)})"
    return f"{texts[0]} if {texts[0]} > {texts[1]} else {texts[1]}"


@functools.lru_cache(maxsize=4096)
def _compiled(text: str) -> CodeType:
    return compile(text, "<stretch>", "exec")


def function_of(
    effect: Effect,
    monitor: Monitor,
    core: int,
    active: Set[int],
    **services: object,
) -> Callable[[], object]:
    """A function that makes a stretch on core `core`.

    active: the pipes of that core of which it matters what others know. services: `M`, `S`, `R`,
    `counts`, `losses`, `stamp`, `slow`.
    """
    writer = _Writer(effect, core * AGENTS_PER_CORE, active)
    names: dict[str, object] = {}
    exec(_compiled(writer.text()), names)
    make: Callable[..., Callable[[], object]] = names["make"]  # type: ignore[assignment]
    cells = {name: cell for cell, name in writer.cells.items()}
    queues = {name: monitor.flag_queue(core, *event) for event, name in writer.queues.items()}
    traces = {name: trace for trace, name in writer.traces.items()}
    return make(**cells, **queues, **traces, **monitor.lists(), M=monitor, **services)
