"""Rotary position embedding."""

from __future__ import annotations

import torch

from kernels_npu.reference.normalization import rms_norm
from kernels_npu.reference.precision import wide


def rotary_embedding(
    positions: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    interleaved: bool,
) -> None:
    """Rotate the first `rotary_dim` elements of every head of `query` and `key`, in place."""
    cos, sin = wide(cos_sin_cache[positions.long()]).unsqueeze(1).chunk(2, dim=-1)
    for heads in (query, key):
        rotated = heads[..., : cos_sin_cache.shape[1]]
        values = wide(rotated)
        if interleaved:
            first, second = values[..., 0::2], values[..., 1::2]
        else:
            first, second = values.chunk(2, dim=-1)
        turned = (first * cos - second * sin, second * cos + first * sin)
        joined = torch.stack(turned, dim=-1).flatten(-2) if interleaved else torch.cat(turned, -1)
        rotated.copy_(joined.to(heads.dtype))


def split_qkv_rmsnorm_rope(
    qkv: torch.Tensor,
    q_weight: torch.Tensor,
    k_weight: torch.Tensor,
    eps: float,
    positions: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    num_q_heads: int,
    num_kv_heads: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """`qkv` split by heads, q and k normalised per head and rotated; rounded once, all new."""
    head_dim, counts = q_weight.shape[0], (num_q_heads, num_kv_heads, num_kv_heads)
    parts = qkv.split([count * head_dim for count in counts], -1)
    query, key = (
        rms_norm(wide(part).unflatten(-1, (count, head_dim)), wide(weight), eps)
        for part, count, weight in zip(parts, counts, (q_weight, k_weight))
    )
    rotary_embedding(positions, query, key, cos_sin_cache, interleaved=False)
    rotated = (heads.flatten(-2).to(qkv.dtype) for heads in (query, key))
    return *rotated, parts[2].clone(memory_format=torch.contiguous_format)
