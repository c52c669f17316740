"""What the cores of the blocks that are alive together share: monitor, shadows, findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kernels_npu.sim.config import SimConfig
from kernels_npu.sim.machine.advisors import Advisors
from kernels_npu.sim.machine.cross_block import BlockAccesses
from kernels_npu.sim.machine.findings import FindingLog
from kernels_npu.sim.machine.instruction import AnyArray
from kernels_npu.sim.machine.memory import Arena
from kernels_npu.sim.machine.monitor import Monitor
from kernels_npu.sim.machine.race_reports import RaceReports
from kernels_npu.sim.machine.shadow import (
    AGENTS_PER_CORE,
    CORES_PER_BLOCK,
    Cell,
    Losses,
    ShadowMemory,
    rows_of,
)
from kernels_npu.sim.machine.sites import Site
from kernels_npu.sim.tracing.recorder import LaunchTrace


@dataclass
class LaunchState:
    """What all blocks of a launch share.

    tensor_names: by parameter index. groups: parameter index -> (storage group, byte
    offset in it); parameters whose bytes overlap are in one group. tensors: their flat views.
    same_work: ids of the statements that the vector cores of a block execute alike. trace: where
    the launch is recorded.
    """

    kernel: str
    config: SimConfig
    log: FindingLog
    tensor_names: Sequence[str]
    groups: Sequence[tuple[int, int]]
    tensors: Sequence[AnyArray]
    advisors: Advisors
    same_work: frozenset[int] = frozenset()
    trace: LaunchTrace | None = None
    blocks: BlockAccesses = field(default_factory=BlockAccesses)

    def content(self, group: int, cell: Cell) -> AnyArray:
        """The bytes of a range of a storage group, rows x row_bytes; empty if in no one tensor."""
        for (owner, offset), tensor in zip(self.groups, self.tensors):
            data = tensor.view(np.uint8)
            if owner == group and offset <= cell.start and cell.stop <= offset + data.size:
                return rows_of(data, cell, offset)
        return np.empty((0, 0), np.uint8)


class BlockState:
    """One block slot: reused by the blocks that run in it one after another."""

    def __init__(self, group: BlockGroup, slot: int, arenas: dict[tuple[int, str], Arena]) -> None:
        self.group = group
        self.monitor = group.monitor
        self.auto_sync = group.monitor.auto_sync
        self.first_core = slot * CORES_PER_BLOCK
        self.arenas = arenas
        self.losses = Losses()
        self.on_chip = {
            key: ShadowMemory(key[1], arena.size, self.losses) for key, arena in arenas.items()
        }
        self.sites: dict[int, tuple[Site, ...]] = {}
        self.block = 0
        self.serial = 0

    @property
    def launch(self) -> LaunchState:
        """The launch that the block belongs to."""
        assert self.group.launch is not None
        return self.group.launch

    def start_block(self, block: int, *, poison: bool) -> None:
        """Prepare for the next block: fresh memories."""
        self.block = block
        self.serial += 1
        if poison:
            for arena in self.arenas.values():
                arena.poison()
            for shadow in self.on_chip.values():
                shadow.start_block()

    def site_of(self, agent: int, site: int) -> Site:
        """The site with index `site` of the program that `agent` runs."""
        return self.sites[agent // AGENTS_PER_CORE % CORES_PER_BLOCK][site]


class BlockGroup:
    """The block slots alive together, with what orders them: one monitor, one global memory."""

    def __init__(self, auto_sync: bool, slots: int) -> None:
        self.reports = RaceReports(self)
        self.monitor = Monitor(auto_sync, self.reports.hazard, max(slots, 1))
        self.states: list[BlockState] = []
        self.launch: LaunchState | None = None
        self.global_memory: dict[int, ShadowMemory] = {}

    def add_slot(self, arenas: dict[tuple[int, str], Arena]) -> BlockState:
        """One more slot, with its memories keyed by (core, memory)."""
        state = BlockState(self, len(self.states), arenas)
        self.states.append(state)
        return state

    def use_monitor(self, monitor: Monitor) -> None:
        """Let `monitor` see the accesses and orders of all slots."""
        self.monitor = monitor
        for state in self.states:
            state.monitor = monitor

    def start_launch(self, launch: LaunchState) -> None:
        """Storage groups are numbered anew by every launch."""
        self.launch = launch
        self.global_memory.clear()

    def start_blocks(self) -> None:
        """Everything before is over."""
        self.monitor.block_boundary()

    def end_blocks(self) -> None:
        """Hand the blocks' accesses to global memory to the launch, which compares blocks."""
        assert self.launch is not None
        if len(self.states) == 1 and self.launch.config.checks.races:
            (state,) = self.states
            for group, shadow in self.global_memory.items():
                cells = list(shadow.cells.values())
                self.launch.blocks.add(
                    group, state.block, cells, state.site_of, self.launch.content
                )
        for shadow in self.global_memory.values():
            shadow.forget()

    def end_launch(self) -> None:
        """Compare blocks that were not alive together."""
        if self.launch is not None:
            self.launch.blocks.report(self.reports.between_blocks)

    def gm_shadow(self, tensor: int) -> tuple[ShadowMemory, int]:
        """Shadow of the storage that holds parameter `tensor`, and the latter's offset in it."""
        assert self.launch is not None
        group, offset = self.launch.groups[tensor]
        shadow = self.global_memory.get(group)
        if shadow is None:
            shadow = self.global_memory[group] = ShadowMemory("GM")
        return shadow, offset

    def group_of(self, cell: Cell) -> int:
        """The storage group in which `cell` lies."""
        return next(g for g, shadow in self.global_memory.items() if shadow.holds(cell))

    def memory_of(self, cell: Cell, agent: int) -> str:
        """Name of the memory in which `agent` touched `cell`."""
        core = agent // AGENTS_PER_CORE
        state = self.states[core // CORES_PER_BLOCK]
        for (owner, name), shadow in state.on_chip.items():
            if owner == core % CORES_PER_BLOCK and shadow.holds(cell):
                return name
        return "GM"
