"""Findings about races: both sides with operation, place and line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernels_npu.sim.machine.cells import Cell
from kernels_npu.sim.machine.cross_block import Touch
from kernels_npu.sim.machine.findings import ERROR, WARNING, Access, Finding
from kernels_npu.sim.machine.operands import Rect
from kernels_npu.sim.machine.shadow import AGENTS_PER_CORE, CORES, CORES_PER_BLOCK, PIPES
from kernels_npu.sim.machine.sites import Site

if TYPE_CHECKING:
    from kernels_npu.sim.machine.block_state import BlockGroup

_CODES = {"RAW": "AI-RACE-001", "WAR": "AI-RACE-002", "WAW": "AI-RACE-003"}


@dataclass(frozen=True, eq=False)
class _Side:
    """One access of a hazard."""

    agent: int
    block: int
    site: Site
    cell: Cell
    write: bool

    @property
    def core(self) -> int:
        return self.agent // AGENTS_PER_CORE % CORES_PER_BLOCK


class RaceReports:
    """Turns pairs of conflicting accesses into findings, one per pair of statements."""

    def __init__(self, group: BlockGroup) -> None:
        self._group = group

    def hazard(
        self, kind: str, old: int, old_site: int, new: int, new_site: int, cell: Cell, other: Cell
    ) -> None:
        """The monitor found that nothing orders `new` after `old`."""
        group = self._group
        launch = group.launch
        assert launch is not None
        before, after = (
            self._side(agent, index, place, write)
            for agent, index, place, write in (
                (old, old_site, other, kind != "WAR"),
                (new, new_site, cell, kind != "RAW"),
            )
        )
        same_block = before.block == after.block
        if (
            kind == "WAW"
            and same_block
            and before.core != after.core
            and before.site.stmt is after.site.stmt
            and id(before.site.stmt) in launch.same_work
        ):
            return  # every core stores the same bytes to the same place
        # Both AIVs run the same text: one mistake there is one finding.
        kinds = (before.core > 0, after.core > 0)
        key = ("race", kind, kinds, before.site.stmt.loc, after.site.stmt.loc)
        if launch.log.seen(key):
            return
        # The scalar unit is done with an access when it issues the next instruction; CANN asks for
        # a flag all the same.
        by_scalar = first_pipe_is_scalar(old, new)
        memory = group.memory_of(other, new)
        first, second = (self._access(side, memory) for side in (before, after))
        launch.log.add(
            key,
            Finding(
                code=_CODES[kind],
                severity=WARNING if by_scalar else ERROR,
                message=f"Potential {kind} hazard detected at {first.memory}"
                + ("" if same_block else " between blocks"),
                kernel=launch.kernel,
                loc=after.site.stmt.loc,
                accesses=(first, second),
                fix=missing_edge(first, second) if same_block else _BETWEEN_BLOCKS,
            ),
        )

    def _side(self, agent: int, site: int, cell: Cell, write: bool) -> _Side:
        state = self._group.states[agent // AGENTS_PER_CORE // CORES_PER_BLOCK]
        return _Side(agent, state.block, state.site_of(agent, site), cell, write)

    def between_blocks(self, storage: int, old: Touch, new: Touch) -> None:
        """Two blocks that nothing can order touch the same bytes of a storage group."""
        launch = self._group.launch
        assert launch is not None
        kind = "WAW" if old.write and new.write else ("RAW" if old.write else "WAR")
        key = ("block race", kind, old.site.stmt.loc, new.site.stmt.loc)
        if launch.log.seen(key):
            return
        accesses = tuple(
            self._access(_Side(t.agent, t.block, t.site, t.cell, t.write), "GM") for t in (old, new)
        )
        launch.log.add(
            key,
            Finding(
                code=_CODES[kind],
                severity=ERROR,
                message=f"Potential {kind} hazard detected at GM between blocks",
                kernel=launch.kernel,
                loc=new.site.stmt.loc,
                accesses=accesses,
                fix=_BETWEEN_BLOCKS,
            ),
        )

    def _access(self, side: _Side, memory: str) -> Access:
        site = side.site
        tensor, offset = self._tensor(site, side.write) if memory == "GM" else ("", 0)
        return Access(
            operation=site.op,
            kind="Write" if side.write else "Read",
            pipe=site.pipe
            if self._group.monitor.auto_sync
            else PIPES[side.agent % AGENTS_PER_CORE],
            core=CORES[side.core],
            block=side.block,
            memory=memory,
            start=side.cell.start - offset,
            stop=side.cell.stop - offset,
            loc=site.stmt.loc,
            tensor=tensor,
        )

    def _tensor(self, site: Site, write: bool) -> tuple[str, int]:
        """The tensor that `site` names, and where it starts in its storage group."""
        launch = self._group.launch
        assert launch is not None
        for footprint in site.footprints:
            if isinstance(footprint.view, Rect) and footprint.write == write:
                return launch.tensor_names[footprint.tensor], launch.groups[footprint.tensor][1]
        return "", 0


_BETWEEN_BLOCKS = (
    "blocks run in any order and at the same time: give each block its own bytes, "
    "or add with T.tile.atomic_add"
)


def first_pipe_is_scalar(old: int, new: int) -> bool:
    """Whether the older access is the scalar unit's and the newer one of the same core."""
    same_core = old // AGENTS_PER_CORE == new // AGENTS_PER_CORE
    return same_core and PIPES[old % AGENTS_PER_CORE] == "S"


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
        f"no cross-core flag from {first.core} to {second.core}: add T.set_cross_flag("
        f'"{first.pipe}", id) after {first.loc} and T.wait_cross_flag(id) before {second.loc}'
    )
