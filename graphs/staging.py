"""Host staging: pinned memory that cannot be overwritten while a copy from it is in flight.

An asynchronous copy reads its source when the device gets to it, not when the call returns. With
one staging buffer, preparing step n+1 can overwrite what step n has not yet read, and step n then
computes with the next step's metadata. Here each of a few slots carries an event that is recorded
after the last copy from it; the slot is written again only when that event has been reached.
"""

from __future__ import annotations

import torch

from graphs.batch import PADDING, DecodeBatch, InputName
from graphs.device_api import DeviceApi
from graphs.packing import PackedInputs


class StagingSlot:
    """Host memory for all inputs of a step, and the event that says when it is free again."""

    def __init__(self, api: DeviceApi, layout: PackedInputs) -> None:
        self._layout = layout
        self._memory = api.host_staging((layout.size(layout.max_batch),), torch.uint8)
        # NumPy views: assigning a slice costs a tenth of the same assignment through torch.
        self._arrays = {name: view.numpy() for name, view in layout.views(self._memory).items()}
        self._ranges: dict[int, torch.Tensor] = {}
        self._api = api
        self._free = api.new_event()
        self._in_flight = False

    def wait_until_free(self) -> None:
        """Block the host until the copies that were enqueued from this slot are done."""
        if self._in_flight and self._free is not None:
            self._free.synchronize()
        self._in_flight = False

    def mark_in_flight(self) -> None:
        """Call after enqueuing the last copy from this slot, on the stream that copies."""
        if self._free is not None:
            self._free.record(self._api.current_stream())
        self._in_flight = True

    def range(self, bucket: int) -> torch.Tensor:
        """The bytes that hold the first `bucket` rows of all inputs.

        Made once, because a cut costs as much as the copy from it.
        """
        part = self._ranges.get(bucket)
        if part is None:
            part = self._ranges[bucket] = self._memory[: self._layout.size(bucket)]
        return part

    def write(self, name: InputName, batch: DecodeBatch, bucket: int) -> None:
        """Put one input of a host batch into the first `bucket` rows, padding included."""
        array = self._arrays[name]
        source = getattr(batch, name).numpy()
        size = batch.size
        if name == "block_table":
            width = source.shape[1]
            array[:size, :width] = source
            if width < array.shape[1]:
                array[:size, width:] = PADDING[name]
        else:
            array[:size] = source
        if size < bucket:
            array[size:bucket] = PADDING[name]


class StagingRing:
    """Staging slots used in turn; with two the host prepares a step while the device reads one."""

    def __init__(self, api: DeviceApi, max_batch: int, max_blocks: int, *, slots: int = 2) -> None:
        self.layout = PackedInputs(max_batch=max_batch, max_blocks=max_blocks)
        self._slots = [StagingSlot(api, self.layout) for _ in range(slots)]
        self._next = 0

    def acquire(self) -> StagingSlot:
        """The next slot, safe to write."""
        slot = self._slots[self._next]
        self._next = (self._next + 1) % len(self._slots)
        slot.wait_until_free()
        return slot
