"""The smallest paged decode step that reads every input: for self-tests of graphs on any device.

Embedding plus a table of positions, one attention over a paged cache, a linear head;
plain torch, no synchronisation, nothing allocated on the host,
so it can be captured wherever torch can capture.
"""

from __future__ import annotations

import math

import torch

from graphs.batch import DecodeBatch
from graphs.kv_state import KvState


class ToyDecoder:
    """A one-layer, one-head decoder. `step` is the step function, `state` its KV cache.

    Args:
        num_blocks, block_size: of the KV cache, [num_blocks, block_size, hidden].
        dtype: of weights, cache and logits.
    """

    def __init__(
        self,
        device: torch.device | str,
        *,
        vocab_size: int = 61,
        hidden: int = 32,
        num_blocks: int = 24,
        block_size: int = 4,
        max_positions: int = 512,
        dtype: torch.dtype = torch.float32,
        seed: int = 0,
    ) -> None:
        generator = torch.Generator().manual_seed(seed)

        def weight(*shape: int) -> torch.Tensor:
            values = torch.randn(shape, generator=generator) / math.sqrt(shape[-1])
            return values.to(device, dtype)

        self.vocab_size = vocab_size
        self.hidden = hidden
        self.block_size = block_size
        self.embedding = weight(vocab_size, hidden) * 4
        self.position_table = weight(max_positions, hidden) * 4
        self.qkv = weight(hidden, 3 * hidden)
        self.head = weight(hidden, vocab_size)
        self.key_cache = torch.zeros(num_blocks, block_size, hidden, dtype=dtype, device=device)
        self.value_cache = torch.zeros_like(self.key_cache)
        self._slots = torch.arange(num_blocks * block_size, dtype=torch.int32, device=device)

    @property
    def state(self) -> KvState:
        """The cache, for `verify`."""
        return KvState(
            tensors={"key_cache": self.key_cache, "value_cache": self.value_cache},
            block_size=self.block_size,
        )

    def step(self, batch: DecodeBatch) -> torch.Tensor:
        """One decode step; returns logits [rows, vocab_size]."""
        hidden = self.embedding[batch.token_ids] + self.position_table[batch.positions]
        query, key, value = (hidden @ self.qkv).chunk(3, dim=1)
        self._write(self.key_cache, key, batch.slot_mapping)
        self._write(self.value_cache, value, batch.slot_mapping)
        return (hidden + self._attend(query, batch)) @ self.head

    def _write(self, cache: torch.Tensor, rows: torch.Tensor, slot_mapping: torch.Tensor) -> None:
        # Every slot asks which row writes it. Shapes are static and slot -1 matches nothing, where
        # index_put_ would need a dummy slot for the padding rows.
        hits = self._slots[:, None] == slot_mapping[None, :]
        source = rows[hits.to(torch.int32).argmax(1)]
        flat = cache.view(-1, self.hidden)
        flat.copy_(torch.where(hits.any(1)[:, None], source, flat))

    def _attend(self, query: torch.Tensor, batch: DecodeBatch) -> torch.Tensor:
        blocks = batch.block_table.long()
        rows = blocks.shape[0]
        keys = self.key_cache[blocks].reshape(rows, -1, self.hidden)
        values = self.value_cache[blocks].reshape(rows, -1, self.hidden)
        scores = (keys * query[:, None, :]).sum(2) / math.sqrt(self.hidden)
        context = torch.arange(scores.shape[1], device=scores.device)
        reached = context[None, :] < batch.seq_lens[:, None]
        weights = scores.masked_fill(~reached, float("-inf")).softmax(1)
        weights = weights.masked_fill(~reached, 0.0)  # a row of padding reaches nothing, not NaN
        return (weights[:, :, None] * values).sum(1)
