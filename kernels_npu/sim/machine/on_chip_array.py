"""On-chip buffers as arrays that say where they lie."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np

from kernels_npu.errors import SourceLocation
from kernels_npu.sim import ir
from kernels_npu.sim.dtypes import bytes_of
from kernels_npu.sim.machine.instruction import AnyArray
from kernels_npu.sim.machine.memory import Arena
from kernels_npu.sim.machine.operands import shape_of
from kernels_npu.sim.soc import MEMORY_OF_SCOPE

#: What each kind of core can read on chip.
MEMORIES_OF_CORE = {"cube": ("L1", "L0A", "L0B", "L0C"), "vector": ("UB",)}

_Base = np.ndarray[Any, np.dtype[Any]]


class OnChipArray(_Base):
    """A view of on-chip memory: writing to it writes to the memory.

    place: dtype, shape, memory and byte range, empty for what is computed from it.
    """

    place: str = ""

    def __repr__(self) -> str:
        values = np.array2string(np.asarray(self), threshold=64, edgeitems=3, max_line_width=100)
        return f"{self.place}\n{values}" if self.place else values

    __str__ = __repr__


def unique_name(name: str, taken: Collection[str]) -> str:
    """`name`, numbered when a buffer of a macro or another scope has it already."""
    number, result = 1, name
    while result in taken:
        number += 1
        result = f"{name}_{number}"
    return result


def labelled(flat: AnyArray, shape: tuple[int, ...], place: str) -> OnChipArray:
    """The first elements of `flat` in `shape`; an allocation beyond the memory stays flat."""
    count = math.prod(shape)
    data = flat[:count].reshape(shape) if count <= len(flat) else flat
    array: OnChipArray = data.view(OnChipArray)
    array.place = place
    return array


def describe(buffer: ir.Buffer, address: int) -> str:
    """Dtype, shape, memory and byte range of `buffer` at `address`."""
    shape = shape_of(buffer, buffer.loc or SourceLocation("", 0))
    last = address + math.prod(shape) * bytes_of(buffer.dtype)
    memory = MEMORY_OF_SCOPE[buffer.scope]
    return f"{buffer.dtype}{list(shape)} in {memory} bytes [{address:#x}, {last:#x})"


def on_chip_array(buffer: ir.Buffer, arena: Arena, address: int) -> OnChipArray:
    """The memory of `buffer` at `address` of `arena`."""
    shape = shape_of(buffer, buffer.loc or SourceLocation("", 0))
    return labelled(arena.flat(address, buffer.dtype), shape, describe(buffer, address))
