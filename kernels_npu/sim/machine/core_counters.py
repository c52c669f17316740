"""What each core of each block did: kept on request, since most launches are asked for sums only.

Bytes, instructions and operations are `simulated`, cycles `modelled`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kernels_npu.sim.machine.binding import BoundCore

CORES = ("cube0", "vector0", "vector1")


@dataclass(frozen=True, kw_only=True)
class Work:
    """The arithmetic of one core in one dtype; operations as in `cost.Arithmetic`."""

    instructions: int = 0
    cycles: int = 0
    operations: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(
            instructions=self.instructions + other.instructions,
            cycles=self.cycles + other.cycles,
            operations=self.operations + other.operations,
        )


@dataclass(frozen=True, kw_only=True)
class CoreCounters:
    """One core of one block.

    Args:
        block: its number in the grid.
        core: 0 the AIC, 1 and 2 the AIVs; `CORES` has the profiler's names.
        gm_paths: bytes by path, e.g. `GM->UB`.
        instructions, cycles: by pipe; waiting is not among the cycles.
        arithmetic: by dtype.
        total_cycles: from the start of the block on this core to its last instruction; None when
            the launch was not traced.
    """

    block: int
    core: int
    gm_paths: Mapping[str, int] = field(default_factory=dict)
    instructions: Mapping[str, int] = field(default_factory=dict)
    cycles: Mapping[str, int] = field(default_factory=dict)
    arithmetic: Mapping[str, Work] = field(default_factory=dict)
    total_cycles: int | None = None


class CoreLog:
    """Notes block by block what the cores counted since the block before."""

    def __init__(self) -> None:
        self.entries: list[CoreCounters] = []
        self._seen: dict[int, tuple[list[int], list[int]]] = {}

    def end_block(self, block: int, cores: Iterable[BoundCore]) -> None:
        """`block` has run on `cores` as far as it got."""
        for core in cores:
            fresh = ([0] * len(core.counts), [0] * len(core.gm_bytes))
            before_counts, before_bytes = self._seen.get(id(core), fresh)
            counts = [now - then for now, then in zip(core.counts, before_counts)]
            moved = [now - then for now, then in zip(core.gm_bytes, before_bytes)]
            # The counts themselves go on: other parts of the machine read them at the launch's end.
            self._seen[id(core)] = (list(core.counts), list(core.gm_bytes))
            self.entries.append(_counters(block, core, counts, moved))


def _counters(block: int, core: BoundCore, counts: list[int], moved: list[int]) -> CoreCounters:
    paths: dict[str, int] = {}
    instructions: dict[str, int] = {}
    cycles: dict[str, int] = {}
    arithmetic: dict[str, Work] = {}
    for site, count, nbytes in zip(core.source.sites, counts, moved):
        if nbytes:
            paths[site.gm_path] = paths.get(site.gm_path, 0) + nbytes
        if not count:
            continue
        instructions[site.pipe] = instructions.get(site.pipe, 0) + count
        cycles[site.pipe] = cycles.get(site.pipe, 0) + count * site.cycles
        work = site.instruction.arithmetic if site.instruction is not None else None
        if work is not None:
            one = Work(
                instructions=count,
                cycles=count * site.cycles,
                operations=count * work.operations,
            )
            arithmetic[work.dtype] = arithmetic.get(work.dtype, Work()) + one
    return CoreCounters(
        block=block,
        core=core.index,
        gm_paths=paths,
        instructions=instructions,
        cycles=cycles,
        arithmetic=arithmetic,
        total_cycles=None if core.timeline is None else core.timeline.length,
    )
