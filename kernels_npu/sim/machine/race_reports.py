"""Findings about races: both sides with operation, place and line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernels_npu.sim.machine.cells import Cell
from kernels_npu.sim.machine.cross_block import Touch
from kernels_npu.sim.machine.cross_partners import Side
from kernels_npu.sim.machine.findings import ERROR, WARNING, Access, Finding, Insertion
from kernels_npu.sim.machine.memory import POISON
from kernels_npu.sim.machine.operands import Rect
from kernels_npu.sim.machine.shadow import AGENTS_PER_CORE, CORES, CORES_PER_BLOCK, PIPES
from kernels_npu.sim.machine.sites import Site
from kernels_npu.sim.machine.sync_advice import Advice

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
        # Both AIVs run the same text: one mistake there is one finding. So are a read and a write
        # of one statement that miss the same edge.
        kinds = (before.core > 0, after.core > 0)
        pipes = (self._pipe(before), self._pipe(after))
        key = ("race", kinds, pipes, same_block, before.site.stmt.loc, after.site.stmt.loc)
        if launch.log.seen(key):
            return
        # The scalar unit is done with an access when it issues the next instruction; CANN asks for
        # a flag all the same.
        by_scalar = first_pipe_is_scalar(old, new)
        memory = group.memory_of(other, new)
        first, second = (self._access(side, memory) for side in (before, after))
        details: tuple[str, ...] = ()
        advice = BETWEEN_BLOCKS
        if same_block and kind == "WAR" and memory == "GM" and self._never_written(other):
            # The schedule let the reader go first; the kernel means it to come second.
            details = (f"the bytes read were never written: {second.core} was to write them first",)
            advice = self._advice("RAW", after, before)
        elif same_block:
            advice = self._advice(kind, before, after)
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
                details=details,
                fix=advice.text,
                insertions=advice.insertions,
            ),
        )

    def overtaken(self, agent: int, older: Cell, cell: Cell, site: int) -> None:
        """A product adds to what the product before it may not have written yet."""
        launch = self._group.launch
        assert launch is not None
        before = self._side(agent, older.write_site, older, True)
        after = self._side(agent, site, cell, True)
        key = ("overtaken", before.site.stmt.loc, after.site.stmt.loc)
        if launch.log.seen(key):
            return
        line = Insertion(loc=after.site.stmt.loc, where="before", code='T.pipe_barrier("m")')
        launch.log.add(
            key,
            Finding(
                code="AI-RACE-005",
                severity=WARNING,
                message=f"{after.site.op} adds to an accumulator that the product before it may "
                "not have finished",
                kernel=launch.kernel,
                loc=after.site.stmt.loc,
                accesses=tuple(
                    self._access(side, self._group.memory_of(older, agent))
                    for side in (before, after)
                ),
                fix=f"add {line}",
                insertions=(line,),
            ),
        )

    def _advice(self, kind: str, before: _Side, after: _Side) -> Advice:
        """What orders `after` after `before`, in one block."""
        launch = self._group.launch
        assert launch is not None
        pipes = [self._pipe(side) for side in (before, after)]
        if before.core != after.core:
            sides = [Side(s.core, p, s.site.stmt) for s, p in zip((before, after), pipes)]
            advice = launch.advisors.cross.between(kind, *sides)
            missing = f"no cross-core flag from {CORES[before.core]} to {CORES[after.core]}"
        else:
            state = self._group.states[after.agent // AGENTS_PER_CORE // CORES_PER_BLOCK]
            flags = launch.advisors.flags(after.core, state.sites[after.core])
            advice = flags.between(pipes[0], before.site.stmt, pipes[1], after.site.stmt)
            names = [
                f"{pipe} {'write' if side.write else 'read'}"
                for pipe, side in zip(pipes, (before, after))
            ]
            missing = f"no wait between {names[0]} and {names[1]}"
        return Advice(f"{missing}: {advice.text}", advice.insertions)

    def _never_written(self, cell: Cell) -> bool:
        """Whether a range of global memory still holds what fresh memory is filled with."""
        launch = self._group.launch
        assert launch is not None
        content = launch.content(self._group.group_of(cell), cell)
        return content.size > 0 and bool((content == POISON).all())

    def _pipe(self, side: _Side) -> str:
        if self._group.monitor.auto_sync:
            return side.site.pipe
        return PIPES[side.agent % AGENTS_PER_CORE]

    def _side(self, agent: int, site: int, cell: Cell, write: bool) -> _Side:
        state = self._group.states[agent // AGENTS_PER_CORE // CORES_PER_BLOCK]
        return _Side(agent, state.block, state.site_of(agent, site), cell, write)

    def between_blocks(self, storage: int, old: Touch, new: Touch, equal: bool) -> None:
        """Two blocks that nothing can order touch the same bytes of a storage group.

        equal: both wrote the same bytes there. Then it does not matter whose are read; that the
        work is done twice is said once, for the pair of writes.
        """
        launch = self._group.launch
        assert launch is not None
        if equal and not (old.write and new.write):
            return
        kind = "WAW" if old.write and new.write else ("RAW" if old.write else "WAR")
        key = ("block race", kind, equal, old.site.stmt.loc, new.site.stmt.loc)
        if launch.log.seen(key):
            return
        accesses = tuple(
            self._access(_Side(t.agent, t.block, t.site, t.cell, t.write), "GM") for t in (old, new)
        )
        launch.log.add(
            key,
            Finding(
                code="AI-RACE-004" if equal else _CODES[kind],
                severity=WARNING if equal else ERROR,
                message="blocks write equal bytes to the same place of GM"
                if equal
                else f"Potential {kind} hazard detected at GM between blocks",
                kernel=launch.kernel,
                loc=new.site.stmt.loc,
                accesses=accesses,
                fix="" if equal else BETWEEN_BLOCKS.text,
            ),
        )

    def _access(self, side: _Side, memory: str) -> Access:
        site = side.site
        tensor, offset = self._tensor(side, memory)
        return Access(
            operation=site.op,
            kind="Write" if side.write else "Read",
            pipe=self._pipe(side),
            core=CORES[side.core],
            block=side.block,
            memory=memory,
            start=side.cell.start - offset,
            stop=side.cell.stop - offset,
            loc=site.stmt.loc,
            tensor=tensor,
        )

    def _tensor(self, side: _Side, memory: str) -> tuple[str, int]:
        """The tensor or buffer of an access; for a tensor also its place in its storage."""
        launch = self._group.launch
        assert launch is not None
        names: list[tuple[bool, str, int]] = []
        for footprint in side.site.footprints:
            view = footprint.view
            if footprint.write != side.write:
                continue
            if isinstance(view, Rect):
                if memory == "GM":
                    tensor = footprint.tensor
                    names.append((True, launch.tensor_names[tensor], launch.groups[tensor][1]))
            elif view.memory == memory:
                # A statement with several operands in a memory: the last to start before the range.
                starts_before = footprint.address <= side.cell.start
                names.append((starts_before, view.buffer.name, footprint.address))
        fitting = [(name, place) for before, name, place in names if before]
        if not fitting:
            return (names[0][1], 0) if names else ("", 0)
        if memory == "GM":
            return fitting[0]
        return max(fitting, key=lambda item: item[1])[0], 0


BETWEEN_BLOCKS = Advice(
    "no flag orders blocks, which run in any order and at the same time: give each block its own "
    "bytes, add with T.tile.atomic_add, or put T.sync_all() between the two (then all blocks must "
    "run at once)"
)


def first_pipe_is_scalar(old: int, new: int) -> bool:
    """Whether the older access is the scalar unit's and the newer one of the same core."""
    same_core = old // AGENTS_PER_CORE == new // AGENTS_PER_CORE
    return same_core and PIPES[old % AGENTS_PER_CORE] == "S"
