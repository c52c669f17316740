"""On-chip memories as bytes at addresses, and global memory as the caller's storage."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kernels_npu.sim.dtypes import numpy_dtype

Bytes = npt.NDArray[np.uint8]

#: What memory that was never written holds: an all-ones pattern is a NaN in every float format.
POISON = 0xFF


@dataclass(frozen=True)
class GmArg:
    """A tensor argument: its bytes from the data pointer to the end of its storage.

    data: 1-D uint8 view of the caller's memory. shape, dtype: of the tensor passed (dialect name).
    """

    data: Bytes
    shape: tuple[int, ...]
    dtype: str
    name: str


class Arena:
    """One core's copy of one memory, e.g. the UB of AIV1."""

    def __init__(self, memory: str, size: int) -> None:
        self.memory = memory
        self.size = size
        self.bytes: Bytes = np.full(size, POISON, dtype=np.uint8)

    def poison(self) -> None:
        """Forget the contents."""
        self.bytes.fill(POISON)

    def flat(self, address: int, dtype: str) -> npt.NDArray[np.generic]:
        """All elements from `address` to the end of the memory."""
        element = numpy_dtype(dtype)
        count = (self.size - address) // element.itemsize
        return self.bytes[address : address + count * element.itemsize].view(element)
