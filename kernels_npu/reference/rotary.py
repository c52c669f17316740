"""Rotary position embedding."""

from __future__ import annotations

import torch

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
