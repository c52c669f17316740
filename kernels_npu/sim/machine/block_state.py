"""Everything the cores of one block share while it runs: monitor, shadows, flags, findings."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from kernels_npu.sim.config import SimConfig
from kernels_npu.sim.machine.findings import ERROR, Access, Finding, FindingLog
from kernels_npu.sim.machine.memory import Arena
from kernels_npu.sim.machine.monitor import Monitor
from kernels_npu.sim.machine.shadow import AGENTS_PER_CORE, CORES, PIPES, Cell, ShadowMemory
from kernels_npu.sim.machine.sites import Site


@dataclass
class LaunchState:
    """What all blocks of a launch share.

    tensor_names: by parameter index. groups: parameter index -> (storage group, byte offset in it);
    parameters whose bytes overlap are in one group.
    """

    kernel: str
    config: SimConfig
    log: FindingLog
    tensor_names: Sequence[str]
    groups: Sequence[tuple[int, int]]
    touched: dict[int, list[tuple[int, int, int, bool, Cell, Site, int]]] = field(
        default_factory=dict
    )


class BlockState:
    """One block slot: reused by the blocks that run in it one after another."""

    def __init__(self, auto_sync: bool, arenas: dict[tuple[int, str], Arena]) -> None:
        self.arenas = arenas
        self.monitor = Monitor(auto_sync, self._hazard)
        self.auto_sync = auto_sync
        self.on_chip = {key: ShadowMemory(key[1], arena.size) for key, arena in arenas.items()}
        self.global_memory: dict[int, ShadowMemory] = {}
        self.sites: dict[int, tuple[Site, ...]] = {}
        self.block = 0
        self.serial = 0
        self.launch: LaunchState | None = None

    # ------------------------------------------------------------------ life of a block

    def start_block(self, launch: LaunchState, block: int, *, poison: bool) -> None:
        """Prepare for the next block: fresh memories, everything before is over."""
        self.launch = launch
        self.block = block
        self.serial += 1
        self.monitor.block_boundary()
        if poison:
            for arena in self.arenas.values():
                arena.poison()
            for shadow in self.on_chip.values():
                shadow.start_block()

    def end_block(self) -> None:
        """Hand the block's accesses to global memory to the launch, which compares blocks."""
        for group, shadow in self.global_memory.items():
            if shadow.cells:
                self._compare_with_other_blocks(group, shadow)
                shadow.forget()

    def gm_shadow(self, tensor: int) -> tuple[ShadowMemory, int]:
        """Shadow of the storage that parameter `tensor` lies in, and the parameter's offset in it."""
        assert self.launch is not None
        group, offset = self.launch.groups[tensor]
        shadow = self.global_memory.get(group)
        if shadow is None:
            shadow = self.global_memory[group] = ShadowMemory(self.launch.tensor_names[tensor])
        return shadow, offset

    # ------------------------------------------------------------------ reports

    def site_of(self, agent: int, site: int) -> Site:
        """The site with index `site` of the program that `agent` runs."""
        return self.sites[agent // AGENTS_PER_CORE][site]

    def access(self, agent: int, site: Site, cell: Cell, memory: str, kind: str) -> Access:
        """One side of a hazard, for the report."""
        core = agent // AGENTS_PER_CORE
        on_chip = memory in ("UB", "L1", "L0A", "L0B", "L0C")
        return Access(
            operation=site.op,
            kind=kind,
            pipe=site.pipe if self.auto_sync else PIPES[agent % AGENTS_PER_CORE],
            core=CORES[core],
            block=self.block,
            memory=memory if on_chip else "GM",
            start=cell.start,
            stop=cell.stop,
            loc=site.stmt.loc,
            tensor="" if on_chip else memory,
        )

    def _hazard(
        self, kind: str, old: int, old_site: int, new: int, new_site: int, cell: Cell, other: Cell
    ) -> None:
        assert self.launch is not None
        before, after = self.site_of(old, old_site), self.site_of(new, new_site)
        # Both AIVs run the same text: one mistake there is one finding.
        kinds = (old // AGENTS_PER_CORE > 0, new // AGENTS_PER_CORE > 0)
        key = ("race", kind, kinds, before.stmt.loc, after.stmt.loc)
        if self.launch.log.seen(key):
            return
        memory = self._memory_of(cell, new)
        first = self.access(old, before, other, memory, "Read" if kind == "WAR" else "Write")
        second = self.access(new, after, cell, memory, "Read" if kind == "RAW" else "Write")
        self.launch.log.add(
            key,
            Finding(
                code={"RAW": "AI-RACE-001", "WAR": "AI-RACE-002", "WAW": "AI-RACE-003"}[kind],
                severity=ERROR,
                message=f"Potential {kind} hazard detected at {first.memory}",
                kernel=self.launch.kernel,
                loc=after.stmt.loc,
                accesses=(first, second),
                fix=missing_edge(first, second),
            ),
        )

    def _memory_of(self, cell: Cell, agent: int) -> str:
        core = agent // AGENTS_PER_CORE
        for (owner, name), shadow in self.on_chip.items():
            if owner == core and any(cell is c for c in shadow.cells.values()):
                return name
        for shadow in self.global_memory.values():
            if any(cell is c for c in shadow.cells.values()):
                return shadow.name
        return "GM"

    # ------------------------------------------------------------------ other blocks

    def _compare_with_other_blocks(self, group: int, shadow: ShadowMemory) -> None:
        """Two blocks are never ordered: any shared byte that one of them writes is a race."""
        assert self.launch is not None
        index = self.launch.touched.setdefault(group, [])
        fresh: list[tuple[int, int, int, bool, Cell, Site, int]] = []
        longest = max((stop - start for start, stop, *_ in index), default=0)
        for cell in shadow.cells.values():
            sides = [(a, s, False) for a, (_, s) in cell.readers.items()]
            if cell.writer >= 0:
                sides.append((cell.writer, cell.write_site, True))
            for agent, site_index, write in sides:
                site = self.site_of(agent, site_index)
                entry = (cell.start, cell.stop, self.block, write, cell, site, agent)
                fresh.append(entry)
                first = bisect_left(index, cell.start - longest, key=lambda e: e[0])
                for other in index[first:]:
                    if other[0] >= cell.stop:
                        break
                    if (write or other[3]) and other[2] != self.block and cell.meets(other[4]):
                        self._cross_block(other, entry, shadow.name)
        self.launch.touched[group] = sorted([*index, *fresh], key=lambda e: e[0])

    def _cross_block(
        self,
        old: tuple[int, int, int, bool, Cell, Site, int],
        new: tuple[int, int, int, bool, Cell, Site, int],
        tensor: str,
    ) -> None:
        assert self.launch is not None
        kind = "WAW" if old[3] and new[3] else ("RAW" if old[3] else "WAR")
        key = ("block race", kind, old[5].stmt.loc, new[5].stmt.loc)
        if self.launch.log.seen(key):
            return
        current, self.block = self.block, old[2]
        first = self.access(old[6], old[5], old[4], tensor, "Write" if old[3] else "Read")
        self.block = current
        second = self.access(new[6], new[5], new[4], tensor, "Write" if new[3] else "Read")
        self.launch.log.add(
            key,
            Finding(
                code={"RAW": "AI-RACE-001", "WAR": "AI-RACE-002", "WAW": "AI-RACE-003"}[kind],
                severity=ERROR,
                message=f"Potential {kind} hazard detected at GM between blocks",
                kernel=self.launch.kernel,
                loc=new[5].stmt.loc,
                accesses=(first, second),
                fix="blocks run in any order and at the same time: give each block its own bytes, "
                "or add with T.tile.atomic_add",
            ),
        )


def missing_edge(first: Access, second: Access) -> str:
    """What to add so that `first` happens before `second`."""
    if first.core == second.core:
        a, b = first.pipe.lower(), second.pipe.lower()
        return (
            f"no wait between {first.pipe} {first.kind.lower()} and {second.pipe} "
            f'{second.kind.lower()}: add T.set_flag("{a}", "{b}", id) after {first.loc} and '
            f'T.wait_flag("{a}", "{b}", id) before {second.loc}'
        )
    return (
        f'no cross-core flag from {first.core} to {second.core}: add T.set_cross_flag("{first.pipe}", '
        f"id) after {first.loc} and T.wait_cross_flag(id) before {second.loc}"
    )
