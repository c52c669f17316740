"""On-chip memory as a launch left it, for reading afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from kernels_npu.sim import ir
from kernels_npu.sim.machine.block_state import BlockState
from kernels_npu.sim.machine.on_chip_array import OnChipArray, on_chip_array, unique_name
from kernels_npu.sim.machine.shadow import CORES
from kernels_npu.sim.soc import MEMORY_OF_SCOPE


@dataclass(frozen=True, kw_only=True)
class CoreMemory:
    """The buffers of one core when its block ended, or where it was stopped.

    core: `aic`, `aiv0` or `aiv1`. buffers: copies by the kernel's names; of several with one name
    the later ones are numbered. What was never written holds all-one bits, with the check for it.
    """

    block: int
    core: str
    buffers: Mapping[str, OnChipArray]


def kept_memory(
    state: BlockState, cores: Iterable[int], placements: Mapping[ir.Buffer, int]
) -> Iterator[CoreMemory]:
    """Copies of the buffers of `cores` of one block."""
    for core in cores:
        buffers: dict[str, OnChipArray] = {}
        for buffer, address in placements.items():
            arena = state.arenas.get((core, MEMORY_OF_SCOPE[buffer.scope]))
            if arena is not None:
                array = on_chip_array(buffer, arena, address)
                copy = array.copy()
                copy.place = array.place
                buffers[unique_name(buffer.name, buffers)] = copy
        yield CoreMemory(block=state.block, core=CORES[core], buffers=buffers)
