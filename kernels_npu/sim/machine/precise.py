"""Precise mode: next to every half-precision element its value in float32.

The memories hold what they always hold, rounded elements; beside them lie a float32 per two bytes
and the bits to which it was rounded. An operation reads the float32 wherever memory still holds
those bits, and the stored element everywhere else: what was written by other means (a gather, a
reinterpreted view, the host) counts as it is. It writes all three.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from kernels_npu.sim.dtypes import HALF_PRECISION
from kernels_npu.sim.machine.half import to_half
from kernels_npu.sim.machine.instruction import AnyArray, Instruction, MemoryFrom
from kernels_npu.sim.machine.memory import Bytes
from kernels_npu.sim.machine.operands import Rect, View
from kernels_npu.sim.machine.parallel_runtime import Index, scatter

#: Operations that treat elements as bits, by byte offsets, or as records. They see stored elements.
_BY_BITS = ("bitwise_", "gather", "sort", "topk", "merge_sort", "init_sort_buf", "wholereduce")


@dataclass
class _Region:
    """Consecutive bytes, and what lies beside them from the first write on."""

    start: int
    stop: int
    values: AnyArray | None = None
    bits: AnyArray | None = None

    def beside(
        self, array: AnyArray, address: int, *, create: bool
    ) -> tuple[AnyArray, AnyArray] | None:
        """Float32 values and rounded bits of the elements of `array`."""
        offset = address - self.start
        if offset % 2:
            return None
        if self.values is None or self.bits is None:
            if not create:
                return None
            # All-ones bits below the sign are a NaN in both formats, and so is the value.
            elements = (self.stop - self.start + 1) // 2
            self.values = np.full(elements, np.nan, np.float32)
            self.bits = np.full(elements, 0x7FFF, np.uint16)
        strides = tuple(2 * stride for stride in array.strides)
        as_strided = np.lib.stride_tricks.as_strided
        return (
            as_strided(self.values[offset // 2 :], array.shape, strides),
            as_strided(self.bits[offset // 2 :], array.shape, array.strides),
        )


class PreciseMemory:
    """The float32 values of the memories of some cores and of a launch's tensors."""

    def __init__(self, on_chip: Iterable[Bytes]) -> None:
        self._on_chip = [_region(memory) for memory in on_chip]
        self._regions: list[_Region] = []
        self._starts: list[int] = []
        self.start_launch(())

    def start_launch(self, tensors: Iterable[AnyArray]) -> None:
        """Forget everything; `tensors` are the arguments, which may share storage."""
        for region in self._on_chip:
            region.values = region.bits = None
        regions = list(self._on_chip)
        for found in sorted(map(_region, tensors), key=lambda r: r.start):
            last = regions[-1] if len(regions) > len(self._on_chip) else None
            if last is not None and found.start < last.stop:
                last.stop = max(last.stop, found.stop)
            else:
                regions.append(found)
        self._regions = sorted(regions, key=lambda r: r.start)
        self._starts = [region.start for region in self._regions]

    def _beside(self, array: AnyArray, *, create: bool) -> tuple[AnyArray, AnyArray] | None:
        address = array.__array_interface__["data"][0]
        position = bisect_right(self._starts, address) - 1
        if position < 0 or not array.size or address >= self._regions[position].stop:
            return None
        return self._regions[position].beside(array, address, create=create)

    def load(self, array: AnyArray) -> AnyArray:
        """A float32 copy of the half-precision `array`, as precise as is known."""
        values = array.astype(np.float32)
        beside = self._beside(array, create=False)
        if beside is not None:
            precise, bits = beside
            np.copyto(values, precise, where=bits == array.view(np.uint16))
        return values

    def store(self, array: AnyArray, values: AnyArray) -> None:
        """`array[...] = values`, rounded in memory and exact beside it."""
        if array.dtype == np.float16:
            to_half(values, array)
        else:
            array[...] = values.astype(array.dtype)
        self._remember(array, values)

    def _remember(self, array: AnyArray, values: AnyArray) -> None:
        """`values` are what the elements of `array` stand for, as they are stored now."""
        beside = self._beside(array, create=True)
        if beside is not None:
            beside[0][...] = values
            beside[1][...] = array.view(np.uint16)

    def _copies(self, arrays: list[AnyArray]) -> list[AnyArray]:
        """Float32 copies of `arrays`; what is part of another one is part of its copy, too."""
        copies: dict[int, AnyArray] = {}
        made: list[tuple[int, int, AnyArray]] = []
        for number in sorted(range(len(arrays)), key=lambda n: -arrays[n].nbytes):
            array = arrays[number]
            start = array.__array_interface__["data"][0]
            span = sum((n - 1) * s for n, s in zip(array.shape, array.strides)) + array.itemsize
            outer = next((m for m in made if m[0] <= start and start + span <= m[1]), None)
            if outer is None or not array.size:
                copies[number] = self.load(array)
                if array.flags.c_contiguous:
                    made.append((start, start + span, copies[number].reshape(-1)))
            else:
                inside = outer[2][(start - outer[0]) // 2 :]
                strides = tuple(2 * stride for stride in array.strides)
                copies[number] = np.lib.stride_tricks.as_strided(inside, array.shape, strides)
        return [copies[number] for number in range(len(arrays))]

    # ------------------------------------------------------------------ for generated code

    def item(self, flat: AnyArray, offset: int) -> float:
        """One element, for the scalar unit."""
        return float(self.load(flat[offset : offset + 1])[0])

    def put(self, flat: AnyArray, offset: int, value: float) -> None:
        """`flat[offset] = value`."""
        self.store(flat[offset : offset + 1], np.full(1, value, np.float32))

    def scatter(self, target: AnyArray, index: Index, value: AnyArray, mask: AnyArray) -> None:
        """`target[index] = value` where `mask` is set."""
        values = self.load(target)
        scatter(values, index, value, mask)
        self.store(target, values)

    def widened(self, instruction: Instruction) -> Callable[..., object]:
        """The kernel of `instruction` on float32 copies of its half-precision operands."""
        kernel, arguments = instruction.kernel, instruction.args
        wide = [i for i, a in enumerate(arguments) if is_half(a)]
        by_bits = instruction.op.startswith(_BY_BITS)
        if by_bits or not wide or any(isinstance(a, MemoryFrom) for a in arguments):
            return kernel
        only_read = [a for a in instruction.reads if not any(a is w for w in instruction.writes)]
        written = [i for i in wide if not any(arguments[i] is r for r in only_read)]
        # What is only moved keeps its bits: they may be records rather than numbers.
        dtypes = {a.buffer.dtype for a in arguments if isinstance(a, (View, Rect))}
        moves = instruction.op == "copy" and len(dtypes) == 1

        def run(*operands: AnyArray) -> None:
            replaced = list(operands)
            for i, copy in zip(wide, self._copies([operands[i] for i in wide])):
                replaced[i] = copy
            kernel(*replaced)
            if moves:
                kernel(*operands)
            write = self._remember if moves else self.store
            for i in written:
                write(operands[i], replaced[i])

        return run


def is_half(argument: object) -> bool:
    """Whether an instruction's argument is an array of a half-precision float."""
    return isinstance(argument, (View, Rect)) and argument.buffer.dtype in HALF_PRECISION


def _region(array: AnyArray) -> _Region:
    start = array.__array_interface__["data"][0]
    return _Region(start, start + array.nbytes)
