"""Happens-before checking of blocks alive together: epochs per agent, clocks carried by flags.

An agent is a pipe of a core. Within an agent, program order holds; a flag carries the clock of
the pipe that set it to the pipe that waits; everything a core issues is ordered after what its
scalar unit has waited for. Two accesses of which one writes are a hazard unless one happens
before the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from kernels_npu.sim.machine.shadow import (
    AGENTS_PER_CORE,
    CORES_PER_BLOCK,
    PIPE_INDEX,
    Cell,
    ElementTrace,
)

Clock = list[int]
#: Called with (kind, older agent, older site, newer agent, newer site, newer cell, older cell).
HazardSink = Callable[[str, int, int, int, int, Cell, Cell], None]

_SCALAR, _VECTOR = PIPE_INDEX["S"], PIPE_INDEX["V"]
_PIPES = len(PIPE_INDEX)


class Monitor:
    """Clocks of the agents of `slots` blocks and the access checks that use them.

    Cores are numbered through: core `c` of block slot `s` is `s * CORES_PER_BLOCK + c`.
    auto_sync: the compiler orders the pipes within a core, so each core is a single agent.
    """

    def __init__(self, auto_sync: bool, on_hazard: HazardSink, slots: int = 1) -> None:
        self.auto_sync = auto_sync
        self.on_hazard = on_hazard
        cores = slots * CORES_PER_BLOCK
        self._agents = cores * AGENTS_PER_CORE
        #: what each agent knows of the others; lists are shared between agents and never changed
        self._known: list[Clock] = [[0] * self._agents] * self._agents
        #: each agent's own epoch
        self._own = [1] * self._agents
        self._issue_version = [0] * cores
        self._seen_version = [0] * self._agents
        self._joined = [False] * cores
        self._flags: dict[tuple[int, str, str, int], deque[tuple[Clock, int]]] = {}
        self._partners = [self._partner(agent) for agent in range(self._agents)]

    def agent(self, core: int, pipe: str) -> int:
        """The agent that executes `pipe` of `core`."""
        return core * AGENTS_PER_CORE + (0 if self.auto_sync else PIPE_INDEX[pipe])

    @staticmethod
    def _partner(agent: int) -> int:
        """The agent whose accesses the compiler orders with `agent`'s: vector and scalar unit."""
        core, pipe = divmod(agent, AGENTS_PER_CORE)
        if pipe in (_VECTOR, _SCALAR):
            return core * AGENTS_PER_CORE + _VECTOR + _SCALAR - pipe
        return agent

    # ------------------------------------------------------------------ accesses

    def _current(self, agent: int) -> Clock:
        """What the agent knows, after joining what its scalar unit has waited for since."""
        core = agent // AGENTS_PER_CORE
        if self._seen_version[agent] != self._issue_version[core]:
            self._seen_version[agent] = self._issue_version[core]
            return self._join(agent, self._known[core * AGENTS_PER_CORE])
        return self._known[agent]

    def read(self, agent: int, cell: Cell, site: int) -> None:
        """Check and record a read."""
        for other in cell.overlaps:
            writer = other.writer
            if (
                writer >= 0
                and writer != agent
                and writer != self._partners[agent]
                and other.write_clock > self._current(agent)[writer]
            ):
                self.on_hazard("RAW", writer, other.write_site, agent, site, cell, other)
        cell.readers[agent] = (self._own[agent], site)

    def write(self, agent: int, cell: Cell, site: int) -> None:
        """Check and record a write."""
        partner = self._partners[agent]
        for other in cell.overlaps:
            writer = other.writer
            if (
                writer >= 0
                and writer != agent
                and writer != partner
                and other.write_clock > self._current(agent)[writer]
            ):
                self.on_hazard("WAW", writer, other.write_site, agent, site, cell, other)
            for reader in other.readers:
                if reader != agent and reader != partner:
                    when, where = other.readers[reader]
                    if when > self._current(agent)[reader]:
                        self.on_hazard("WAR", reader, where, agent, site, cell, other)
        cell.writer = agent
        cell.write_clock = self._own[agent]
        cell.write_site = site
        if cell.readers:
            cell.readers.clear()

    # ------------------------------------------------------------------ accesses of single elements

    def touch_element(
        self, agent: int, cells: list[Cell], run: Cell, site: int, *, write: bool
    ) -> int:
        """Check an element access of a scalar unit against `cells`; its clock, to be recorded.

        Where the vector unit has touched the element, the compiler lets the scalar unit wait for
        it, and with it everything that the scalar unit issues from then on.
        """
        known = self._current(agent)
        partner = self._partners[agent]
        for other in cells:
            if self._meets_vector(other, partner, known, write):
                core = agent // AGENTS_PER_CORE
                self.acquire(core, "S", self.release(core, "V"))
                known = self._current(agent)
                break
        for other in cells:
            writer = other.writer
            if (
                writer >= 0
                and writer != agent
                and other.write_clock > known[writer]
                and writer != partner
            ):
                kind = "WAW" if write else "RAW"
                self.on_hazard(kind, writer, other.write_site, agent, site, run, other)
            if write and other.readers:
                for reader, (when, where) in other.readers.items():
                    if reader != agent and when > known[reader] and reader != partner:
                        self.on_hazard("WAR", reader, where, agent, site, run, other)
        return self._own[agent]

    @staticmethod
    def _meets_vector(cell: Cell, vector: int, known: Clock, write: bool) -> bool:
        if cell.writer == vector and cell.write_clock > known[vector]:
            return True
        when, _ = cell.readers.get(vector, (0, 0)) if write else (0, 0)
        return when > known[vector]

    def against_elements(
        self, agent: int, trace: ElementTrace, cell: Cell, site: int, *, write: bool
    ) -> None:
        """Check another unit's access against what the scalar unit did to single elements."""
        scalar = agent // AGENTS_PER_CORE * AGENTS_PER_CORE
        if agent == scalar or self._partners[agent] == scalar:
            return
        known = self._current(agent)[scalar]
        older = trace.newer_write(cell, known)
        if older >= 0:
            kind = "WAW" if write else "RAW"
            self.on_hazard(kind, scalar, older, agent, site, cell, cell)
        older = trace.newer_read(cell, known) if write else -1
        if older >= 0:
            self.on_hazard("WAR", scalar, older, agent, site, cell, cell)

    # ------------------------------------------------------------------ ordering

    def _join(self, agent: int, other: Clock) -> Clock:
        merged = [a if a > b else b for a, b in zip(self._known[agent], other)]
        self._known[agent] = merged
        self._joined[agent // AGENTS_PER_CORE] = True
        return merged

    def release(self, core: int, pipe: str) -> Clock:
        """The clock that a flag set by `pipe` carries; later work of the pipe is not covered."""
        agent = self.agent(core, pipe)
        clock = list(self._current(agent))
        clock[agent] = self._own[agent]
        self._own[agent] += 1
        partner = self._partners[agent]
        if agent % AGENTS_PER_CORE == _VECTOR and partner != agent:
            # The compiler lets the vector unit wait for the scalar unit, so its flag covers both.
            clock[partner] = self._own[partner]
            self._own[partner] += 1
        return clock

    def acquire(self, core: int, pipe: str, clock: Clock) -> None:
        """`pipe` continues after everything that `clock` covers."""
        self._join(self.agent(core, pipe), clock)
        if pipe == "S":
            self._issue_version[core] += 1

    def mark_wait(self, core: int) -> int:
        """The scalar unit's time after a wait; what the core issues from now on carries it."""
        scalar = core * AGENTS_PER_CORE
        now = self._own[scalar]
        known = list(self._current(scalar))
        known[scalar] = now
        self._known[scalar] = known
        self._own[scalar] += 1
        self._issue_version[core] += 1
        return now

    def set_flag(self, core: int, src: str, dst: str, event: int, site: int = -1) -> int:
        """`set_flag` at `site`; returns how many sets are now outstanding on the event."""
        queue = self._flags.setdefault((core, src, dst, event), deque())
        queue.append((self.release(core, src), site))
        return len(queue)

    def wait_flag(self, core: int, src: str, dst: str, event: int) -> bool:
        """`wait_flag`; False when nothing was set in program order."""
        queue = self._flags.get((core, src, dst, event))
        if not queue:
            return False
        self.acquire(core, dst, queue.popleft()[0])
        return True

    def outstanding(self, core: int, src: str, dst: str, event: int) -> int:
        """How many sets of an event were not waited for."""
        return len(self._flags.get((core, src, dst, event), ()))

    def last_set(self, core: int, src: str, dst: str, event: int) -> int:
        """Site of the set before the latest outstanding one of an event."""
        return self._flags[(core, src, dst, event)][-2][1]

    def fence(self, core: int, src: str, dst: str) -> None:
        """A set and wait back to back."""
        self.acquire(core, dst, self.release(core, src))

    def barrier(self, core: int) -> None:
        """All pipes of the core drain before anything later starts."""
        if self.auto_sync:
            return
        first = core * AGENTS_PER_CORE
        agents = range(first, first + _PIPES)
        if self._joined[core]:
            merged = list(map(max, *(self._known[a] for a in agents)))
            self._joined[core] = False
        else:
            merged = self._known[first].copy()
        merged[first : first + _PIPES] = self._own[first : first + _PIPES]
        version = self._issue_version[core]
        for agent in agents:
            self._known[agent] = merged
            self._own[agent] += 1
            self._seen_version[agent] = version

    def join_cores(self, cores: list[int]) -> None:
        """`sync_all`: everything that `cores` did happens before everything that they do next."""
        agents = [c * AGENTS_PER_CORE + p for c in cores for p in range(AGENTS_PER_CORE)]
        merged = list(map(max, *(self._known[a] for a in agents)))
        for agent in agents:
            merged[agent] = self._own[agent]
        for agent in agents:
            self._known[agent] = merged
            self._own[agent] += 1
            self._seen_version[agent] = self._issue_version[agent // AGENTS_PER_CORE]
        for core in cores:
            self._joined[core] = False

    def block_boundary(self) -> None:
        """Everything before is over: start all agents after all others."""
        self.join_cores(list(range(self._agents // AGENTS_PER_CORE)))

    def leftover_flags(self) -> list[tuple[int, str, str, int, int, int]]:
        """(core, src, dst, event, count, site of the last set) of flags still set; forgets them."""
        left = [(*key, len(queue), queue[-1][1]) for key, queue in self._flags.items() if queue]
        self._flags.clear()
        return left
