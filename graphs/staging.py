"""Host staging: pinned memory that cannot be overwritten while a copy from it is in flight.

An asynchronous copy reads its source when the device gets to it, not when the call returns. With
one staging buffer, preparing step n+1 can overwrite what step n has not yet read, and step n then
computes with the next step's metadata. Here each of a few slots carries an event that is recorded
after the last copy from it; the slot is written again only when that event has been reached.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from graphs.batch import INPUT_DTYPES, INPUT_NAMES, PADDING, DecodeBatch, InputName
from graphs.device_api import DeviceApi


class StagingSlot:
    """One set of host buffers, full size, and the event that says when they are free again."""

    def __init__(self, api: DeviceApi, max_batch: int, max_blocks: int) -> None:
        self._tensors = {
            name: api.host_staging(
                (max_batch, max_blocks) if name == "block_table" else (max_batch,),
                INPUT_DTYPES[name],
            )
            for name in INPUT_NAMES
        }
        # NumPy views: assigning a slice costs a tenth of the same assignment through torch.
        self._arrays = {name: tensor.numpy() for name, tensor in self._tensors.items()}
        self._rows: dict[int, dict[InputName, torch.Tensor]] = {}
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

    def rows(self, bucket: int) -> Mapping[InputName, torch.Tensor]:
        """The first `bucket` rows of every host buffer.

        Made once, because a cut costs as much as the copy from it.
        """
        rows = self._rows.get(bucket)
        if rows is None:
            rows = {name: tensor[:bucket] for name, tensor in self._tensors.items()}
            self._rows[bucket] = rows
        return rows

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
        self._slots = [StagingSlot(api, max_batch, max_blocks) for _ in range(slots)]
        self._next = 0

    def acquire(self) -> StagingSlot:
        """The next slot, safe to write."""
        slot = self._slots[self._next]
        self._next = (self._next + 1) % len(self._slots)
        slot.wait_until_free()
        return slot
