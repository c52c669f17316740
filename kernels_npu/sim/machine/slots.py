"""Block slots: the cores and memories where a launch's blocks run, reused between launches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kernels_npu.sim import ir
from kernels_npu.sim.config import SimConfig
from kernels_npu.sim.dtypes import bytes_of
from kernels_npu.sim.machine.binding import BoundCore, bind_core
from kernels_npu.sim.machine.block_state import BlockGroup, BlockState
from kernels_npu.sim.machine.core_counters import CoreLog
from kernels_npu.sim.machine.cross_flags import CrossFlags
from kernels_npu.sim.machine.kept_memory import CoreMemory, kept_memory
from kernels_npu.sim.machine.memory import Arena
from kernels_npu.sim.machine.precise import PreciseMemory
from kernels_npu.sim.machine.program import CoreProgram
from kernels_npu.sim.machine.timeline import SignalBoard
from kernels_npu.sim.passes import LoweredKernel
from kernels_npu.sim.soc import MEMORY_OF_SCOPE
from kernels_npu.sim.tracing.recorder import LaunchTrace

_CORE_MEMORIES = (("L1", "L0A", "L0B", "L0C"), ("UB",), ("UB",))


#: No memory of a core is larger; a view that asks for more ends with the memory.
_LONGEST_VIEW = 1 << 19


@dataclass(eq=False)
class Slot:
    """One set of cores: an AIC and its AIVs with their memories."""

    state: BlockState
    cores: list[BoundCore]


@dataclass(eq=False)
class SlotGroup:
    """The slots of the blocks that are alive together."""

    group: BlockGroup
    slots: list[Slot]
    flags: CrossFlags
    #: on-chip memory of the blocks of the latest launch, when it is to be kept
    kept: list[CoreMemory] = field(default_factory=list)
    precise: PreciseMemory | None = None

    def keep_memory(self, placements: Mapping[ir.Buffer, int]) -> None:
        """Copy the buffers of the blocks that are in the slots now."""
        for slot in self.slots:
            self.kept += kept_memory(slot.state, [c.index for c in slot.cores], placements)

    def count_cores(self, log: CoreLog) -> None:
        """Note what the cores of the blocks in the slots did."""
        for slot in self.slots:
            log.end_block(slot.state.block, slot.cores)

    @property
    def cores(self) -> Iterator[BoundCore]:
        """All cores of all slots."""
        return (core for slot in self.slots for core in slot.cores)


def make_slots(
    lowered: LoweredKernel,
    programs: tuple[CoreProgram, CoreProgram],
    vector_cores: int,
    alive: int,
    config: SimConfig,
    *,
    every_range: bool = False,
) -> SlotGroup:
    """`alive` slots that run `programs` (cube, vector).

    every_range: the monitor also sees the ranges that a single pipe touches.
    """
    group = BlockGroup(lowered.auto_sync, alive)
    flags = CrossFlags(alive, vector_cores)
    slots = []
    places = [_arenas(lowered, programs, vector_cores) for _ in range(alive)]
    precise = None
    if config.precise:
        precise = PreciseMemory(arena.bytes for arenas in places for arena in arenas.values())
    for number, arenas in enumerate(places):
        state = group.add_slot(arenas)
        cores = []
        for core in range(1 + vector_cores):
            program = programs[min(core, 1)]
            if program.empty:
                continue
            own = {m: arenas[(core, m)] for m in _CORE_MEMORIES[core]}
            cores.append(
                bind_core(
                    program,
                    core,
                    number,
                    state,
                    own,
                    config,
                    flags,
                    precise,
                    every_range=every_range,
                )
            )
            state.sites[core] = program.sites
        slots.append(Slot(state, cores))
    return SlotGroup(group, slots, flags, precise=precise)


def _arenas(
    lowered: LoweredKernel, programs: tuple[CoreProgram, CoreProgram], vector_cores: int
) -> dict[tuple[int, str], Arena]:
    """The memories of one slot, by core and name."""
    return {
        (core, memory): Arena(memory, _arena_size(lowered, programs[min(core, 1)], memory))
        for core in range(1 + vector_cores)
        for memory in _CORE_MEMORIES[core]
    }


def start_timelines(trace: LaunchTrace, slots: SlotGroup, flags: CrossFlags) -> None:
    """Put the blocks that were just started on the trace's axis; `flags` says who signals whom."""
    board = SignalBoard(flags)
    for slot in slots.slots:
        places = trace.start_block(slot.state.block, [c.index for c in slot.cores])
        for core, (cycle, process) in zip(slot.cores, places):
            assert core.timeline is not None
            core.timeline.start_block(cycle, trace.file, process, board)


def end_timelines(trace: LaunchTrace, slots: SlotGroup) -> None:
    """The blocks in the slots have run as far as they got."""
    for slot in slots.slots:
        for core in slot.cores:
            assert core.timeline is not None
            trace.end_block(slot.state.block, core.timeline.end)


def _arena_size(lowered: LoweredKernel, program: CoreProgram, memory: str) -> int:
    """The bytes in use, and what the views reach: a padded tile's last row is viewed in full."""
    size = lowered.used_bytes.get(memory, 0)
    rows = [
        int(b.shape[-1]) * bytes_of(b.dtype)  # type: ignore[arg-type]
        for b in lowered.placements
        if MEMORY_OF_SCOPE[b.scope] == memory and b.shape
    ]
    size += max(rows, default=0)
    for constant in program.views.values():
        view = constant.view
        if view.memory == memory and isinstance(view.offset, ir.Const):
            end = int(view.offset.value) + max(view.rows * view.pitch, view.count)
            size = max(size, constant.address + min(end * view.itemsize, _LONGEST_VIEW))
    return -(-size // 64) * 64
