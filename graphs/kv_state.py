"""The paged KV cache as verification sees it: content to set, snapshot, compare and give back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

from graphs.compare import Mismatch, Tolerance, find_mismatch
from graphs.errors import VerificationError

Snapshot = Mapping[str, torch.Tensor]


@dataclass(frozen=True, kw_only=True)
class KvState:
    """All tensors that a decode step writes besides its logits.

    Args:
        tensors: device tensors by name (`layers.0.key_cache`), each
            [num_blocks, block_size, ...] of a floating dtype.
            They are written in place, never replaced.
        block_size: tokens per block, in every tensor.

    Snapshots live on the host, so verify with a cache of tens of blocks, not with one that fills
    the device.

    Raises:
        VerificationError: AI-VERIFY-001 when there is no tensor or the shapes disagree.
    """

    tensors: Mapping[str, torch.Tensor]
    block_size: int

    def __post_init__(self) -> None:
        blocks = {tensor.shape[0] for tensor in self.tensors.values()}
        sizes = {tensor.shape[1] for tensor in self.tensors.values()}
        if len(blocks) != 1 or sizes != {self.block_size}:
            raise VerificationError(
                "AI-VERIFY-001",
                f"{len(self.tensors)} KV tensors with block counts {sorted(blocks)} and block "
                f"sizes {sorted(sizes)}, block_size={self.block_size}",
                rule="every KV tensor is [num_blocks, block_size, ...] with the same two sizes",
                fix="pass each layer's key and value cache, and no other tensors",
            )

    @property
    def num_blocks(self) -> int:
        return next(iter(self.tensors.values())).shape[0]

    def snapshot(self) -> Snapshot:
        """Host copies of the present content; waits for the device."""
        return {name: tensor.detach().to("cpu", copy=True) for name, tensor in self.tensors.items()}

    def write(self, content: Snapshot) -> None:
        """Overwrite the whole cache, in place."""
        for name, tensor in self.tensors.items():
            tensor.copy_(content[name])

    @contextlib.contextmanager
    def preserved(self) -> Iterator[None]:
        """Give the cache its present content back after the body, whatever happens in it."""
        before = self.snapshot()
        try:
            yield
        finally:
            self.write(before)


def random_content(state: KvState, generator: torch.Generator) -> Snapshot:
    """Standard normal values for every tensor of `state`, on the host."""
    return {
        name: torch.randn(tensor.shape, generator=generator).to(tensor.dtype)
        for name, tensor in state.tensors.items()
    }


def rolled(content: Snapshot, blocks: int) -> Snapshot:
    """`content` with its blocks moved on by `blocks`: one memcpy gives every block other values."""
    return {name: tensor.roll(blocks, 0) for name, tensor in content.items()}


def with_other_slots(content: Snapshot, block_size: int, slots: torch.Tensor) -> Snapshot:
    """`content` with the given slots (int64, `block * block_size + offset`) times -4."""
    blocks, offsets = slots // block_size, slots % block_size
    changed = {name: tensor.clone() for name, tensor in content.items()}
    for tensor in changed.values():
        tensor[blocks, offsets] *= -4
    return changed


def first_difference(
    expected: Snapshot, actual: Snapshot, tolerance: Tolerance | None = None
) -> Mismatch | None:
    """The first KV tensor in which two snapshots differ; None when they agree."""
    for name, tensor in expected.items():
        mismatch = find_mismatch(name, tensor, actual[name], tolerance)
        if mismatch is not None:
            return mismatch
    return None


def written_slots(before: Snapshot, after: Snapshot, block_size: int) -> set[int]:
    """Slots whose bits changed in any tensor."""
    slots: set[int] = set()
    for name, old in before.items():
        width = old[0, 0].numel() * old.element_size() if old.numel() else 0
        if not width:
            continue
        as_bytes = [t.contiguous().view(torch.uint8).reshape(-1, width) for t in (old, after[name])]
        changed = (as_bytes[0] != as_bytes[1]).any(1)
        slots.update(int(slot) for slot in changed.nonzero().flatten())
    return slots
