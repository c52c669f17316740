"""Static buffers: the memory whose addresses are inside the captured graphs.

One full-size tensor per input and one for the logits; every bucket uses the first rows of each.
Filling them is the only thing that happens between two replays.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from graphs.batch import INPUT_NAMES, PADDING, DecodeBatch, InputName
from graphs.device_api import DeviceApi
from graphs.errors import GraphError
from graphs.staging import StagingRing
from graphs.turns import RUNNER, Turn


@dataclass(kw_only=True)
class DecodeBuffers:
    """The static tensors of one runner, on its device. Build with `DecodeBuffers.allocate`.

    memory: uint8, holds all inputs, as `staging.layout` says.
    token_ids, positions: int64 [max_batch]. slot_mapping, seq_lens: int32 [max_batch].
    block_table: int32 [max_batch, max_blocks]. All five are views of `memory`.
    logits: [max_batch, vocab_size], written by the graphs.
    turn: who is using these buffers, through whichever runner.

    The tensors must stay where they are while graphs exist;
    the runner checks that before each replay.
    """

    memory: torch.Tensor
    token_ids: torch.Tensor
    positions: torch.Tensor
    slot_mapping: torch.Tensor
    block_table: torch.Tensor
    seq_lens: torch.Tensor
    logits: torch.Tensor
    staging: StagingRing
    turn: Turn = field(default_factory=lambda: Turn(RUNNER), init=False, repr=False)
    _views: dict[int, DecodeBatch] = field(default_factory=dict, init=False, repr=False)
    _ranges: dict[int, torch.Tensor] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def allocate(
        cls,
        api: DeviceApi,
        *,
        max_batch: int,
        max_blocks: int,
        vocab_size: int,
        logits_dtype: torch.dtype,
    ) -> DecodeBuffers:
        """Buffers for batches of up to `max_batch` rows and `max_blocks` blocks per sequence.

        They start as padding, so a graph that is warmed up or captured on them writes no KV slot.

        Raises:
            GraphError: AI-GRAPH-004 when a size is below 1.
        """
        sizes = {"max_batch": max_batch, "max_blocks": max_blocks, "vocab_size": vocab_size}
        for name, value in sizes.items():
            if value < 1:
                raise GraphError(
                    "AI-GRAPH-004",
                    f"{name} is {value}",
                    rule="static buffers have at least one row, one block and one logit",
                    fix="max_batch is the largest bucket, "
                    "max_blocks the blocks of the longest context",
                )
        staging = StagingRing(api, max_batch, max_blocks)
        memory = torch.zeros(staging.layout.size(max_batch), dtype=torch.uint8, device=api.device)
        inputs = staging.layout.views(memory)
        for name, tensor in inputs.items():
            tensor.fill_(PADDING[name])
        logits = torch.zeros(max_batch, vocab_size, dtype=logits_dtype, device=api.device)
        return cls(memory=memory, **inputs, logits=logits, staging=staging)

    @property
    def max_batch(self) -> int:
        return self.token_ids.shape[0]

    @property
    def max_blocks(self) -> int:
        return self.block_table.shape[1]

    def tensors(self) -> tuple[torch.Tensor, ...]:
        """Every static tensor, in the order of `TENSOR_NAMES`."""
        return (
            self.token_ids,
            self.positions,
            self.slot_mapping,
            self.block_table,
            self.seq_lens,
            self.logits,
        )

    def slice(self, bucket: int) -> DecodeBatch:
        """The first `bucket` rows of every input: what the step function sees during capture."""
        view = self._views.get(bucket)
        if view is None:
            view = DecodeBatch(**{name: getattr(self, name)[:bucket] for name in INPUT_NAMES})
            self._views[bucket] = view
        return view

    def fill(self, batch: DecodeBatch, bucket: int) -> None:
        """Copy `batch` into the first rows and make the rows up to `bucket` padding.

        Inputs on the host go through a pinned staging slot, after the copy from its last use has
        ended, and to the device in one copy. Inputs that are on the device already (a sampled
        token, say) are copied there, after it. All copies are asynchronous, on the current stream.

        Raises:
            GraphError: AI-GRAPH-005 when the batch does not fit into `bucket` or the buffers.
        """
        if (
            not batch.size <= bucket <= self.max_batch
            or batch.block_table.shape[1] > self.max_blocks
        ):
            raise GraphError(
                "AI-GRAPH-005",
                f"a batch of {batch.size} rows with {batch.block_table.shape[1]} blocks per "
                f"sequence does not fit into bucket {bucket} of static buffers "
                f"[{self.max_batch}, {self.max_blocks}]",
                rule="static buffers never grow: the graphs hold their addresses",
                fix="allocate the buffers for the longest context and the largest batch",
            )
        slot = self.staging.acquire()
        on_device: list[InputName] = []
        try:
            for name in INPUT_NAMES:
                if getattr(batch, name).device.type == "cpu":
                    slot.write(name, batch, bucket)
                else:
                    on_device.append(name)
            if len(on_device) < len(INPUT_NAMES):
                self._range(bucket).copy_(slot.range(bucket), non_blocking=True)
            for name in on_device:
                target = getattr(self.slice(bucket), name)
                _copy_on_device(target, getattr(batch, name), PADDING[name])
        finally:
            # Also after an error: a copy that was enqueued before it still reads this slot.
            slot.mark_in_flight()

    def _range(self, bucket: int) -> torch.Tensor:
        """The bytes that hold the first `bucket` rows of all inputs."""
        part = self._ranges.get(bucket)
        if part is None:
            part = self._ranges[bucket] = self.memory[: self.staging.layout.size(bucket)]
        return part


TENSOR_NAMES: tuple[str, ...] = (*INPUT_NAMES, "logits")


def _copy_on_device(target: torch.Tensor, source: torch.Tensor, padding: int) -> None:
    size = source.shape[0]
    if source.dim() == 2:
        width = source.shape[1]
        target[:size, :width].copy_(source)
        if width < target.shape[1]:
            target[:size, width:].fill_(padding)
    else:
        target[:size].copy_(source)
    if size < target.shape[0]:
        target[size:].fill_(padding)
