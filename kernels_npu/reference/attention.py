"""Attention of one query token per sequence over a paged KV cache."""

from __future__ import annotations

import torch

from kernels_npu.reference.precision import wide


def paged_decode_attention(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    scale: float,
    sliding_window: int = 0,
    logits_soft_cap: float = 0.0,
) -> torch.Tensor:
    """Softmax attention over the first `seq_lens[i]` keys of row i; zeros where that is 0.

    Works on the whole width of `block_table`, whatever the lengths are: no wait for the device.
    Slots beyond a length do not contribute, even when they hold NaN.
    """
    batch, num_q_heads, head_dim = query.shape
    num_blocks, block_size, num_kv_heads, _ = key_cache.shape
    group = num_q_heads // num_kv_heads
    pages = block_table.long().clamp(0, max(num_blocks - 1, 0))
    keys = wide(key_cache[pages].flatten(1, 2))
    values = wide(value_cache[pages].flatten(1, 2))

    position = torch.arange(pages.shape[1] * block_size, device=query.device)
    lengths = seq_lens.long()[:, None]
    seen = position < lengths
    if sliding_window > 0:
        seen &= position >= lengths - sliding_window

    heads = wide(query).view(batch, num_kv_heads, group, head_dim)
    scores = torch.einsum("bhgd,bkhd->bhgk", heads, keys) * scale
    if logits_soft_cap > 0:
        scores = torch.tanh(scores / logits_soft_cap) * logits_soft_cap
    scores = scores.masked_fill(~seen[:, None, None, :], float("-inf"))
    weights = torch.where(seen[:, None, None, :], torch.softmax(scores, dim=-1), 0.0)
    values = torch.where(seen[:, :, None, None], values, 0.0)
    out = torch.einsum("bhgk,bkhd->bhgd", weights, values)
    return out.reshape(query.shape).to(query.dtype)
