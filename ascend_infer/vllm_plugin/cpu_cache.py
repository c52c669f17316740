"""The cache of vLLM's CPU platform as our kernels read it, and prompts attended in it by PyTorch.

The host packs a block for its own kernels. A layer of ours uses the same bytes of the same block as
`[2, block_size, kv_heads, head_dim]`, keys before values: whatever the host does with whole blocks
stays right, and what it does with the inside of one only its own layers ask for.
"""

from __future__ import annotations

import torch
from torch.nn.functional import scaled_dot_product_attention

from ascend_infer.vllm_plugin.reasons import unserved
from kernels_npu.requirements import addressable


def halves(kv_cache: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values of the host's `[blocks, kv_heads, block_size, 2 * head_dim]`, without a copy.

    Both are `[2 * blocks - 1, block_size, kv_heads, head_dim]` and contiguous; those of the host's
    block b are at index 2 b.
    """
    blocks, kv_heads, block_size, width = kv_cache.shape
    flat = kv_cache.view(2 * blocks, block_size, kv_heads, width // 2)
    return flat[:-1], flat[1:]


def slots_in_halves(slot_mapping: torch.Tensor, block_size: int) -> torch.Tensor:
    """The host's slots `[tokens]` as int32 slots of `halves`; -1, which pads, stays."""
    block = slot_mapping.div(block_size, rounding_mode="floor")
    return torch.where(slot_mapping < 0, -1, slot_mapping + block * block_size).int()


def cache_reason(kv_cache: torch.Tensor, block_size: int, dtype: torch.dtype) -> str | None:
    """Why a cache that the host has made is not one that the kernels were tried with."""
    if kv_cache.dtype != dtype:
        return f"a cache of {kv_cache.dtype}, where {dtype} was tried"
    if kv_cache.shape[2] != block_size:
        return f"cache blocks of {kv_cache.shape[2]}, where {block_size} were tried"
    if not kv_cache.is_contiguous():
        return f"a cache with strides {list(kv_cache.stride())}"
    return unserved(addressable, "attention", kv_cache=kv_cache)


def prefill(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    table: torch.Tensor,
    length: int,
    scale: float,
) -> torch.Tensor:
    """Causal attention of the last tokens of one sequence, by PyTorch in float32.

    query: `[tokens, heads, head_dim]`. table: `[max_blocks]` of `keys` and `values`, which hold the
    sequence's `length` tokens, those of the query included.
    """
    blocks = table[: -(-length // keys.shape[1])].long()
    k, v = (
        cache[blocks].flatten(0, 1)[:length].transpose(0, 1).float() for cache in (keys, values)
    )
    first = length - query.shape[0]
    visible = torch.ones(query.shape[0], length, dtype=torch.bool).tril(first)
    found = scaled_dot_product_attention(
        query.transpose(0, 1).float(), k, v, attn_mask=visible, scale=scale, enable_gqa=True
    )
    return found.transpose(0, 1).to(query.dtype)
