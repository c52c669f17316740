"""Happens-before checking of blocks alive together: epochs per agent, clocks carried by flags.

An agent is a pipe of a core. Within an agent, program order holds; a flag carries the clock of
the pipe that set it to the pipe that waits; everything a core issues is ordered after what its
scalar unit has waited for. Two accesses of which one writes are a hazard unless one happens
before the other.

What an agent knows has two parts. About the pipes of its own core it has a list of its own. About
other cores it knows what its scalar unit knew when it issued some instruction: only the scalar
unit waits for other cores, so these lists form one chain per core, and the later one says more.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable

from kernels_npu.sim.machine.clocks import Clock, Clocks, all_joined, joined
from kernels_npu.sim.machine.shadow import (
    AGENTS_PER_CORE,
    CORES_PER_BLOCK,
    PIPE_INDEX,
    Cell,
    ElementTrace,
)

#: What a flag within a core carries: the clock of the core's pipes, and what was known of others.
Release = tuple[Clock, int, Clocks]
#: Sets of a flag that were not waited for, each with its site.
FlagQueue = deque[tuple[Release, int]]
#: Called with (kind, older agent, older site, newer agent, newer site, newer cell, older cell).
HazardSink = Callable[[str, int, int, int, int, Cell, Cell], None]

_SCALAR, _VECTOR = PIPE_INDEX["S"], PIPE_INDEX["V"]


class Monitor:
    """Clocks of the agents of `slots` blocks and the access checks that use them.

    Cores are numbered through: core `c` of block slot `s` is `s * CORES_PER_BLOCK + c`.
    auto_sync: the compiler orders the pipes within a core, so each core is a single agent.
    """

    #: names of what `lists` returns
    LISTS = ("LOCAL", "OWN", "SEEN", "ISSUED", "VERSION", "FOREIGN", "CHANGES")

    def __init__(self, auto_sync: bool, on_hazard: HazardSink, slots: int = 1) -> None:
        self.auto_sync = auto_sync
        self.on_hazard = on_hazard
        cores = slots * CORES_PER_BLOCK
        self._agents = cores * AGENTS_PER_CORE
        #: what each agent knows of the pipes of its core; lists are shared and never changed
        self._local: list[Clock] = [[0] * AGENTS_PER_CORE] * self._agents
        #: what each agent knows of other cores, and its number in the core's chain
        self._foreign: list[Clocks] = [[[0] * AGENTS_PER_CORE] * cores] * self._agents
        self._foreign_version = [0] * self._agents
        #: each agent's own epoch; the place after a core's last pipe stays empty
        self._own = [1, 1, 1, 1, 1, 1, 1, 0] * cores
        #: per core, how often something happened that an element's check may depend on: an access
        #: of a pipe, or a step of the scalar unit's clock
        self.changes = [0] * cores
        self._issue_version = [0] * cores
        self._seen_version = [0] * self._agents
        self._flags: dict[tuple[int, str, str, int], FlagQueue] = {}
        self._partners = [self._partner(agent) for agent in range(self._agents)]
        self._index = dict.fromkeys(PIPE_INDEX, 0) if auto_sync else PIPE_INDEX

    def agent(self, core: int, pipe: str) -> int:
        """The agent that executes `pipe` of `core`."""
        return core * AGENTS_PER_CORE + self._index[pipe]

    @staticmethod
    def _partner(agent: int) -> int:
        """The agent whose accesses the compiler orders with `agent`'s: vector and scalar unit."""
        core, pipe = divmod(agent, AGENTS_PER_CORE)
        if pipe in (_VECTOR, _SCALAR):
            return core * AGENTS_PER_CORE + _VECTOR + _SCALAR - pipe
        return agent

    # ------------------------------------------------------------------ accesses

    def refresh(self, agent: int, core: int) -> None:
        """Join what the scalar unit has waited for since the agent last looked."""
        if self._seen_version[agent] != self._issue_version[core]:
            self._seen_version[agent] = self._issue_version[core]
            scalar = core * AGENTS_PER_CORE
            if scalar != agent:
                self._local[agent] = joined(self._local[agent], self._local[scalar])
                self._foreign[agent] = self._foreign[scalar]
                self._foreign_version[agent] = self._foreign_version[scalar]

    def _known(self, agent: int, other: int) -> int:
        """Up to which epoch of `other` everything happens before what `agent` does next."""
        core = agent // AGENTS_PER_CORE
        if self._seen_version[agent] != self._issue_version[core]:
            self.refresh(agent, core)
        if other // AGENTS_PER_CORE == core:
            return self._local[agent][other % AGENTS_PER_CORE]
        return self._foreign[agent][other // AGENTS_PER_CORE][other % AGENTS_PER_CORE]

    def read(self, agent: int, cell: Cell, site: int) -> None:
        """Check and record a read."""
        partner = self._partners[agent]
        for other in cell.overlaps:
            writer = other.writer
            if (
                writer != agent
                and writer >= 0
                and writer != partner
                and other.write_clock > self._known(agent, writer)
            ):
                self.on_hazard("RAW", writer, other.write_site, agent, site, cell, other)
        cell.readers[agent] = (self._own[agent], site)

    def write(self, agent: int, cell: Cell, site: int) -> None:
        """Check and record a write."""
        partner = self._partners[agent]
        for other in cell.overlaps:
            writer = other.writer
            if (
                writer != agent
                and writer >= 0
                and writer != partner
                and other.write_clock > self._known(agent, writer)
            ):
                self.on_hazard("WAW", writer, other.write_site, agent, site, cell, other)
            for reader in other.readers:
                if reader != agent and reader != partner:
                    when, where = other.readers[reader]
                    if when > self._known(agent, reader):
                        self.on_hazard("WAR", reader, where, agent, site, cell, other)
        if cell.writer >= 0 and (cell.write_site != site or cell.writer == agent):
            cell.rewritten = True
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
        partner = self._partners[agent]
        for other in cells:
            if self._meets_vector(other, agent, partner, write):
                core = agent // AGENTS_PER_CORE
                self.acquire(core, "S", self.release(core, "V"))
                break
        for other in cells:
            writer = other.writer
            if (
                writer >= 0
                and writer != agent
                and writer != partner
                and other.write_clock > self._known(agent, writer)
            ):
                kind = "WAW" if write else "RAW"
                self.on_hazard(kind, writer, other.write_site, agent, site, run, other)
            if write:
                for reader, (when, where) in other.readers.items():
                    if reader not in (agent, partner) and when > self._known(agent, reader):
                        self.on_hazard("WAR", reader, where, agent, site, run, other)
        return self._own[agent]

    def _meets_vector(self, cell: Cell, scalar: int, vector: int, write: bool) -> bool:
        """Whether the vector unit touched `cell` after all that the scalar unit has waited for."""
        if cell.writer == vector and cell.write_clock > self._known(scalar, vector):
            return True
        when, _ = cell.readers.get(vector, (0, 0)) if write else (0, 0)
        return when > 0 and when > self._known(scalar, vector)

    def clean_at(self, agent: int, cells: list[Cell], *, write: bool) -> int:
        """`changes` of the scalar unit's core when it may touch all of `cells` now, else -1."""
        for other in cells:
            if other.writer not in (-1, agent) and other.write_clock > self._known(
                agent, other.writer
            ):
                return -1
            if write:
                for reader, (when, _) in other.readers.items():
                    if reader != agent and when > self._known(agent, reader):
                        return -1
        return self.changes[agent // AGENTS_PER_CORE]

    def against_elements(
        self, agent: int, trace: ElementTrace, cell: Cell, site: int, *, write: bool
    ) -> None:
        """Check another unit's access against what the scalar unit did to single elements."""
        scalar = agent // AGENTS_PER_CORE * AGENTS_PER_CORE
        if agent == scalar or self._partners[agent] == scalar:
            return
        known = self._known(agent, scalar)
        older = trace.newer_write(cell, known)
        if older >= 0:
            kind = "WAW" if write else "RAW"
            self.on_hazard(kind, scalar, older, agent, site, cell, cell)
        older = trace.newer_read(cell, known) if write else -1
        if older >= 0:
            self.on_hazard("WAR", scalar, older, agent, site, cell, cell)

    # ------------------------------------------------------------------ ordering

    def release(self, core: int, pipe: str) -> Release:
        """What a flag set by `pipe` carries within the core; later work is not covered."""
        agent = core * AGENTS_PER_CORE + self._index[pipe]
        if self._seen_version[agent] != self._issue_version[core]:
            self.refresh(agent, core)
        clock = self._local[agent].copy()
        clock[agent % AGENTS_PER_CORE] = self._own[agent]
        self._own[agent] += 1
        if pipe == "V" and not self.auto_sync:
            # The compiler lets the vector unit wait for the scalar unit, so its flag covers both.
            scalar = core * AGENTS_PER_CORE
            clock[_SCALAR] = self._own[scalar]
            self._own[scalar] += 1
            self.changes[core] += 1
        elif agent % AGENTS_PER_CORE == _SCALAR:
            self.changes[core] += 1
        return clock, self._foreign_version[agent], self._foreign[agent]

    def release_to_cores(self, core: int, pipe: str) -> Clocks:
        """What a cross-core flag set by `pipe` carries."""
        clock, _, foreign = self.release(core, pipe)
        known = foreign.copy()
        known[core] = clock
        return known

    def acquire(self, core: int, pipe: str, release: Release) -> None:
        """`pipe` continues after everything that `release` covers."""
        agent = core * AGENTS_PER_CORE + self._index[pipe]
        clock, version, foreign = release
        self._local[agent] = joined(self._local[agent], clock)
        if version > self._foreign_version[agent]:
            self._foreign_version[agent] = version
            self._foreign[agent] = foreign
        if pipe == "S":
            self._issue_version[core] += 1
            self.changes[core] += 1

    def take_from_cores(self, core: int, clocks: Clocks) -> int:
        """The scalar unit continues after everything that a cross-core flag covers.

        Returns its time after the wait; what the core issues from now on carries it.
        """
        scalar = core * AGENTS_PER_CORE
        now = self._own[scalar]
        local = joined(self._local[scalar], clocks[core]).copy()
        local[_SCALAR] = now
        self._local[scalar] = local
        self._foreign[scalar] = all_joined(self._foreign[scalar], clocks)
        self._foreign_version[scalar] += 1
        self._own[scalar] = now + 1
        self._issue_version[core] += 1
        self.changes[core] += 1
        return now

    def set_flag(self, core: int, src: str, dst: str, event: int, site: int = -1) -> int:
        """`set_flag` at `site`; returns how many sets are now outstanding on the event."""
        queue = self._flags.get((core, src, dst, event))
        if queue is None:
            queue = self.flag_queue(core, src, dst, event)
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
        if src == "V" or dst == "S":
            self.acquire(core, dst, self.release(core, src))
            return
        # What `release` and `acquire` do otherwise; operations with several stages are full of it.
        first = core * AGENTS_PER_CORE
        before, after = first + self._index[src], first + self._index[dst]
        if self._seen_version[before] != self._issue_version[core]:
            self.refresh(before, core)
        local, now = self._local, self._own[before]
        merged = joined(local[after], local[before]).copy()
        merged[before - first] = now
        self._own[before] = now + 1
        local[after] = merged
        if self._foreign_version[before] > self._foreign_version[after]:
            self._foreign_version[after] = self._foreign_version[before]
            self._foreign[after] = self._foreign[before]

    def barrier(self, core: int) -> None:
        """All pipes of the core drain before anything later starts."""
        if not self.auto_sync:
            self._learn_all(core)

    def _learn_all(self, core: int) -> None:
        """The scalar unit waits for all pipes of `core`; what they do next comes after it."""
        first = core * AGENTS_PER_CORE
        s, mte1, mte2, mte3, m, v, fix, _ = now = self._own[first : first + AGENTS_PER_CORE]
        self._local[first] = now
        self._own[first : first + AGENTS_PER_CORE] = [
            s + 1,
            mte1 + 1,
            mte2 + 1,
            mte3 + 1,
            m + 1,
            v + 1,
            fix + 1,
            0,
        ]
        self._issue_version[core] += 1
        self.changes[core] += 1

    def pipe_barrier(self, core: int, pipe: str) -> None:
        """What `pipe` has started completes before it starts anything else."""
        agent = self.agent(core, pipe)
        self.refresh(agent, core)
        local = self._local[agent].copy()
        local[agent % AGENTS_PER_CORE] = self._own[agent]
        self._local[agent] = local
        self._own[agent] += 1

    def unfinished_write(self, agent: int, cell: Cell) -> Cell | None:
        """A range that `agent` has written, shares bytes with `cell` and may not be complete.

        A pipe starts in order; that it is done is known from its barrier or from a flag that came
        back.
        """
        known = self._known(agent, agent)
        return next((c for c in cell.overlaps if c.writer == agent and c.write_clock > known), None)

    def join_cores(self, cores: list[int]) -> None:
        """`sync_all`: everything that `cores` did happens before everything that they do next."""
        known = (self._foreign[core * AGENTS_PER_CORE] for core in cores)
        merged = functools.reduce(all_joined, known).copy()
        for core in cores:
            merged[core] = self._own[core * AGENTS_PER_CORE : (core + 1) * AGENTS_PER_CORE]
        for core in cores:
            scalar = core * AGENTS_PER_CORE
            self._foreign_version[scalar] += 1
            self._foreign[scalar] = merged
            self._learn_all(core)

    def block_boundary(self) -> None:
        """Everything before is over: start all agents after all others."""
        self.join_cores(list(range(self._agents // AGENTS_PER_CORE)))

    def leftover_flags(self) -> list[tuple[int, str, str, int, int, int]]:
        """(core, src, dst, event, count, site of the last set) of flags still set; forgets them."""
        left = [(*key, len(queue), queue[-1][1]) for key, queue in self._flags.items() if queue]
        for queue in self._flags.values():
            queue.clear()
        return left

    # ------------------------------------------------------------------ for stretches of steps

    def lists(self) -> dict[str, object]:
        """The lists that the text of `stretch_code` reads and changes, by their names there."""
        values = (self._local, self._own, self._seen_version, self._issue_version)
        foreign = (self._foreign_version, self._foreign)
        return dict(zip(self.LISTS, (*values, *foreign, self.changes), strict=True))

    def flag_queue(self, core: int, src: str, dst: str, event: int) -> FlagQueue:
        """The sets of an event that were not waited for, with their sites; kept for good."""
        return self._flags.setdefault((core, src, dst, event), deque())
