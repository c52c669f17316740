"""Records the happens-before graph of a launch: every access, and everything that orders two.

The recorder stands in for the monitor of a launch. It keeps no epochs of its own: it notes which
event starts after the completion of which, and leaves the conclusions to
`kernels_npu.sim.machine.happens_before`.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Mapping
from types import FrameType

from kernels_npu.sim import ir
from kernels_npu.sim.machine.block_state import BlockGroup
from kernels_npu.sim.machine.cells import Cell
from kernels_npu.sim.machine.clocks import Clocks
from kernels_npu.sim.machine.happens_before import Execution
from kernels_npu.sim.machine.monitor import Monitor
from kernels_npu.sim.machine.operands import View
from kernels_npu.sim.machine.shadow import (
    AGENTS_PER_CORE,
    CORES_PER_BLOCK,
    PIPE_INDEX,
    PIPES,
    ElementTrace,
)

#: The chain of a core on which stands what everything it issues from then on waits for.
_ISSUE = len(PIPES)

StmtPair = tuple[ir.Stmt, ir.Stmt]


class EventRecorder(Monitor):
    """A monitor that reports nothing and records one `Execution` per group of blocks.

    Chains are the monitor's agents; the one after the last pipe of each core stands for what its
    scalar unit has waited for. lines: per program file name the statement of each line.
    """

    def __init__(
        self, group: BlockGroup, lines: Mapping[str, Mapping[int, ir.Stmt]], slots: int
    ) -> None:
        super().__init__(group.monitor.auto_sync, lambda *_: None, slots)
        self._group = group
        self._lines = lines
        self._cores = slots * CORES_PER_BLOCK
        #: finished executions, oldest first
        self.executions: list[Execution] = []
        #: set -> wait statements that met
        self.pairs: set[StmtPair] = set()
        self._begin()

    def _begin(self) -> None:
        self._execution = Execution(self._agents)
        self._graph = self._execution.graph
        self._gate = [-1] * self._cores
        self._passed = [-1] * self._agents
        #: events by the key of the flag that they set
        self._set: dict[tuple[int, str, str, int], deque[int]] = {}
        #: a cell, its memory, and the last events of the vector unit that wrote and read it
        self._cells: dict[int, tuple[Cell, object, list[int]]] = {}

    # ------------------------------------------------------------------ events

    def _event(self, chain: int, after: tuple[int, ...] = (), label: object = None) -> int:
        """An event that the core issues now."""
        gate = self._gate[chain // AGENTS_PER_CORE]
        if gate > self._passed[chain]:
            self._passed[chain] = gate
            after = (*after, gate)
        return self._graph.add(chain, after, label)

    def _close_gate(self, core: int, after: tuple[int, ...], label: object) -> None:
        """Everything that `core` issues from now on starts when the events `after` are complete."""
        self._gate[core] = self._graph.add(core * AGENTS_PER_CORE + _ISSUE, after, label)

    def _latest(self, core: int) -> tuple[int, ...]:
        first = core * AGENTS_PER_CORE
        last = (self._graph.last(first + p) for p in range(AGENTS_PER_CORE))
        return tuple(event for event in last if event >= 0)

    def _statement(self) -> ir.Stmt | None:
        """The kernel's statement that is being executed."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            lines = self._lines.get(frame.f_code.co_filename)
            if lines is not None:
                return lines.get(frame.f_lineno)
            frame = frame.f_back
        return None

    # ------------------------------------------------------------------ accesses

    def read(self, agent: int, cell: Cell, site: int) -> None:
        """Record a read."""
        self._access(agent, cell, write=False)

    def write(self, agent: int, cell: Cell, site: int) -> None:
        """Record a write."""
        self._access(agent, cell, write=True)

    def _access(self, agent: int, cell: Cell, *, write: bool) -> None:
        event = self._event(agent, label=self._statement())
        known = self._cells.get(id(cell))
        if known is None:
            # Keeping the cell keeps its identity from being given to another one.
            known = self._cells[id(cell)] = (cell, self._find_memory(agent, cell), [-1, -1])
        if agent % AGENTS_PER_CORE == PIPE_INDEX["V"]:
            known[2][0 if write else 1] = event
        self._execution.access(event, known[1], cell, write=write)

    def _find_memory(self, agent: int, cell: Cell) -> object:
        key = (cell.start, cell.rows, cell.row_bytes, cell.pitch)
        number = agent // AGENTS_PER_CORE
        state = self._group.states[number // CORES_PER_BLOCK]
        for (core, name), shadow in state.on_chip.items():
            if core == number % CORES_PER_BLOCK and shadow.cells.get(key) is cell:
                return number, name
        for storage, shadow in self._group.global_memory.items():
            if shadow.cells.get(key) is cell:
                return "GM", storage
        raise AssertionError("a cell belongs to no memory of its core")

    def touch_element(
        self, agent: int, cells: list[Cell], run: Cell, site: int, *, write: bool
    ) -> int:
        """Record an access of the scalar unit, which the compiler lets wait for the vector unit."""
        number = agent // AGENTS_PER_CORE
        if any(self._vector_is_ahead(agent, cell, write=write) for cell in cells):
            vector = self._graph.last(number * AGENTS_PER_CORE + PIPE_INDEX["V"])
            self._close_gate(number, (vector,), self._statement())
        state = self._group.states[number // CORES_PER_BLOCK]
        (footprint,) = state.site_of(agent, site).footprints
        assert isinstance(footprint.view, View)
        event = self._event(agent, label=self._statement())
        self._execution.access(event, (number, footprint.view.memory), run, write=write)
        return 0

    def _vector_is_ahead(self, scalar: int, cell: Cell, *, write: bool) -> bool:
        """Whether the vector unit touched `cell` after what the scalar unit has waited for."""
        if id(cell) not in self._cells:
            return False
        wrote, read = self._cells[id(cell)][2]
        event = max(wrote, read) if write else wrote
        if event < 0:
            return False
        waited = (self._graph.last(scalar), self._gate[scalar // AGENTS_PER_CORE])
        return not any(self._graph.ordered(event, w) for w in waited if w >= 0)

    def clean_at(self, agent: int, cells: list[Cell], *, write: bool) -> int:
        """-1: every access is to be seen."""
        return -1

    def against_elements(
        self, agent: int, trace: ElementTrace, cell: Cell, site: int, *, write: bool
    ) -> None:
        """Nothing: the access itself is recorded next."""

    # ------------------------------------------------------------------ orders

    def _release(self, core: int, pipe: str) -> int:
        """The event of a flag that `pipe` sets."""
        chain = self.agent(core, pipe)
        after: tuple[int, ...] = ()
        scalar = self._graph.last(core * AGENTS_PER_CORE)
        if chain % AGENTS_PER_CORE == PIPE_INDEX["V"] and scalar >= 0:
            # The compiler lets the vector unit wait for the scalar unit.
            after = (scalar,)
        return self._event(chain, after, self._statement())

    def _acquire(self, core: int, pipe: str, events: tuple[int, ...]) -> None:
        label = self._statement()
        if pipe == "S":
            self._close_gate(core, events, label)
        else:
            self._event(self.agent(core, pipe), events, label)
        if isinstance(label, (ir.WaitFlag, ir.WaitCrossFlag)):
            labels = (self._graph.labels[event] for event in events)
            self.pairs |= {
                (stmt, label) for stmt in labels if isinstance(stmt, (ir.SetFlag, ir.SetCrossFlag))
            }

    def set_flag(self, core: int, src: str, dst: str, event: int, site: int = -1) -> int:
        """Record a set; how many are outstanding."""
        queue = self._set.setdefault((core, src, dst, event), deque())
        queue.append(self._release(core, src))
        return len(queue)

    def wait_flag(self, core: int, src: str, dst: str, event: int) -> bool:
        """Record a wait, if there is a set."""
        queue = self._set.get((core, src, dst, event))
        if not queue:
            return False
        self._acquire(core, dst, (queue.popleft(),))
        return True

    def outstanding(self, core: int, src: str, dst: str, event: int) -> int:
        """How many sets of an event were not waited for."""
        return len(self._set.get((core, src, dst, event), ()))

    def fence(self, core: int, src: str, dst: str) -> None:
        """Record a set and wait back to back."""
        self._acquire(core, dst, (self._release(core, src),))

    def release_to_cores(self, core: int, pipe: str) -> Clocks:
        """In place of each core's clock: which event it set last, one more than its number, or 0.

        It stands in the second place; the first is read as the scalar unit's epoch.
        """
        event = self._release(core, pipe)
        rest = [0] * (AGENTS_PER_CORE - 2)
        return [[0, event + 1 if c == core else 0, *rest] for c in range(self._cores)]

    def take_from_cores(self, core: int, clocks: Clocks) -> int:
        """Record that the core has taken a cross-core flag, after its scalar unit's work so far."""
        events = (clock[1] - 1 for clock in clocks if clock[1])
        self._acquire(core, "S", tuple(events))
        scalar = self._event(core * AGENTS_PER_CORE)
        self._close_gate(core, (scalar,), self._statement())
        return 0

    def barrier(self, core: int) -> None:
        """Record a barrier over all pipes of the core."""
        # A core that the compiler synchronises is one chain: the barrier is there and orders none.
        after = () if self.auto_sync else self._latest(core)
        self._close_gate(core, after, self._statement())

    def pipe_barrier(self, core: int, pipe: str) -> None:
        """Record a barrier of one pipe."""
        chain = self.agent(core, pipe)
        last = self._graph.last(chain)
        self._event(chain, (last,) if last >= 0 else (), self._statement())

    def join_cores(self, cores: list[int]) -> None:
        """Record a barrier over cores."""
        label = self._statement()
        everything = tuple(event for core in cores for event in self._latest(core))
        for core in cores:
            self._close_gate(core, everything, label)

    def block_boundary(self) -> None:
        """The blocks that ran until now are over."""
        if self._execution.accesses:
            self.executions.append(self._execution)
        self._begin()

    def leftover_flags(self) -> list[tuple[int, str, str, int, int, int]]:
        """Nothing: no flag is reported."""
        return []
