"""All inputs of a step in one piece of memory, so that a step needs one copy to the device.

The piece has a section per input, full size. The block table is the last one: what a bucket needs
of all inputs is then one range from the start, and five copies of a few hundred bytes become one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

import torch

from graphs.batch import INPUT_DTYPES, INPUT_NAMES, InputName

#: Where torch's allocators begin a tensor, too.
_ALIGNMENT = 512
_ORDER: tuple[InputName, ...] = (*(n for n in INPUT_NAMES if n != "block_table"), "block_table")


@dataclass(frozen=True, kw_only=True)
class PackedInputs:
    """Where each input of up to `max_batch` rows and `max_blocks` blocks per row lies."""

    max_batch: int
    max_blocks: int

    def shape(self, name: InputName) -> tuple[int, ...]:
        """Of the whole input."""
        return (self.max_batch, self.max_blocks) if name == "block_table" else (self.max_batch,)

    @cached_property
    def offsets(self) -> dict[InputName, int]:
        """The first byte of every input."""
        offsets, end = {}, 0
        for name in _ORDER:
            offsets[name] = -(-end // _ALIGNMENT) * _ALIGNMENT
            end = offsets[name] + prod(self.shape(name)) * INPUT_DTYPES[name].itemsize
        return offsets

    def size(self, bucket: int) -> int:
        """Bytes from the start to the end of the first `bucket` rows of the block table."""
        row = self.max_blocks * INPUT_DTYPES["block_table"].itemsize
        return self.offsets["block_table"] + bucket * row

    def views(self, memory: torch.Tensor) -> dict[InputName, torch.Tensor]:
        """The inputs in `memory`, bytes of at least `size(max_batch)`."""
        views = {}
        for name, start in self.offsets.items():
            shape, dtype = self.shape(name), INPUT_DTYPES[name]
            part = memory[start : start + prod(shape) * dtype.itemsize]
            views[name] = part.view(dtype).view(shape)
        return views
