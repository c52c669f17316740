"""The paged KV cache: device tensors per layer, and the host's account of who owns which block."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kernels_npu.errors import UsageError

if TYPE_CHECKING:
    import torch

    from ascend_infer.model.config import ModelConfig


@dataclass(frozen=True, kw_only=True)
class PagedKvCache:
    """Keys and values per layer, each `[num_blocks, block_size, num_kv_heads, head_dim]`."""

    keys: tuple[torch.Tensor, ...]
    values: tuple[torch.Tensor, ...]
    num_blocks: int
    block_size: int

    @classmethod
    def create(
        cls,
        config: ModelConfig,
        *,
        num_blocks: int,
        block_size: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> PagedKvCache:
        """A cache of zeros: kernels load whole tiles and mask what lies past a sequence's end."""
        import torch

        shape = (num_blocks, block_size, config.num_kv_heads, config.head_dim)

        def per_layer() -> tuple[torch.Tensor, ...]:
            return tuple(
                torch.zeros(shape, dtype=dtype, device=device) for _ in range(config.num_layers)
            )

        return cls(
            keys=per_layer(), values=per_layer(), num_blocks=num_blocks, block_size=block_size
        )

    def by_name(self) -> dict[str, torch.Tensor]:
        """Every tensor under a name for messages: `layers.0.key_cache`."""
        return {
            f"layers.{layer}.{kind}_cache": tensor
            for kind, tensors in (("key", self.keys), ("value", self.values))
            for layer, tensor in enumerate(tensors)
        }

    @property
    def bytes(self) -> int:
        """Size of the whole cache on the device."""
        return sum(t.numel() * t.element_size() for t in (*self.keys, *self.values))


@dataclass(kw_only=True)
class _Owner:
    blocks: list[int] = field(default_factory=list)
    length: int = 0


class BlockManager:
    """Which sequence owns which blocks. A slot is `block * block_size + offset` in that block.

    Sequences are known by an integer key of the caller's choice.
    """

    def __init__(self, *, num_blocks: int, block_size: int) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._free = deque(range(num_blocks))
        self._owners: dict[int, _Owner] = {}

    @property
    def num_free(self) -> int:
        """Blocks that nobody owns."""
        return len(self._free)

    def blocks_for(self, num_tokens: int) -> int:
        """Blocks that a sequence of `num_tokens` occupies."""
        return -(-num_tokens // self.block_size)

    def allocate(self, sequence: int, num_tokens: int) -> list[int]:
        """Give a new `sequence` room for `num_tokens`; returns their slots in order.

        Raises:
            UsageError: AI-MODEL-030 when the blocks do not suffice; nothing is taken then.
        """
        if sequence in self._owners:
            raise ValueError(f"sequence {sequence} already owns blocks")
        return self._extend(sequence, self._owners.setdefault(sequence, _Owner()), num_tokens)

    def append(self, sequence: int) -> int:
        """Room for one more token; returns its slot. Raises AI-MODEL-030 as `allocate` does."""
        return self._extend(sequence, self._owners[sequence], 1)[0]

    def free(self, sequence: int) -> None:
        """Take back all blocks of `sequence`, if it owns any; they are handed out again last."""
        owner = self._owners.pop(sequence, None)
        if owner is not None:
            self._free.extend(owner.blocks)

    def block_table(self, sequence: int) -> list[int]:
        """The blocks of `sequence` in the order of its tokens."""
        return list(self._owners[sequence].blocks)

    def length(self, sequence: int) -> int:
        """Tokens of `sequence` that have a slot."""
        return self._owners[sequence].length

    def _extend(self, sequence: int, owner: _Owner, num_tokens: int) -> list[int]:
        needed = self.blocks_for(owner.length + num_tokens) - len(owner.blocks)
        if needed > len(self._free):
            if not owner.blocks:
                del self._owners[sequence]
            raise out_of_blocks(needed, len(self._free), self.num_blocks, self.block_size)
        owner.blocks.extend(self._free.popleft() for _ in range(needed))
        positions = range(owner.length, owner.length + num_tokens)
        owner.length += num_tokens
        size = self.block_size
        return [owner.blocks[p // size] * size + p % size for p in positions]


def out_of_blocks(needed: int, free: int, num_blocks: int, block_size: int) -> UsageError:
    """The error for a KV cache that is too small."""
    return UsageError(
        "AI-MODEL-030",
        f"{needed} KV cache blocks of {block_size} tokens are needed, {free} of {num_blocks} "
        "are free",
        rule="every token of a running sequence keeps its keys and values in the cache",
        fix="raise --num-blocks, or lower --max-new-tokens, the batch or the prompt length",
    )
