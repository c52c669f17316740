"""Rotary position embedding of queries and keys in one launch."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels_npu.cuda.rows import dense_last, require_dense_last

_HEADS = 4


@triton.jit
def _rotary(
    positions,
    query,
    key,
    cos_sin,
    query_row,
    query_head,
    key_row,
    key_head,
    cos_sin_row,
    q_heads,
    k_heads,
    half,
    INTERLEAVED: tl.constexpr,
    HEADS: tl.constexpr,
    HALF_PAD: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    group = tl.program_id(1)
    query_groups = tl.cdiv(q_heads, HEADS)
    pair = tl.arange(0, HALF_PAD)
    angle = cos_sin + tl.load(positions + token).to(tl.int64) * cos_sin_row + pair
    cos = tl.load(angle, mask=pair < half, other=0.0).to(tl.float32)[None, :]
    sin = tl.load(angle + half, mask=pair < half, other=0.0).to(tl.float32)[None, :]
    if group < query_groups:
        head = group * HEADS + tl.arange(0, HEADS)
        inside = (head < q_heads)[:, None] & (pair < half)[None, :]
        heads = query + token * query_row + head[:, None] * query_head
    else:
        head = (group - query_groups) * HEADS + tl.arange(0, HEADS)
        inside = (head < k_heads)[:, None] & (pair < half)[None, :]
        heads = key + token * key_row + head[:, None] * key_head
    if INTERLEAVED:
        first_at = heads + 2 * pair[None, :]
        second_at = first_at + 1
    else:
        first_at = heads + pair[None, :]
        second_at = first_at + half
    first = tl.load(first_at, mask=inside, other=0.0)
    second = tl.load(second_at, mask=inside, other=0.0)
    a, b = first.to(tl.float32), second.to(tl.float32)
    tl.store(first_at, (a * cos - b * sin).to(first.dtype), mask=inside)
    tl.store(second_at, (b * cos + a * sin).to(second.dtype), mask=inside)


def rotary_embedding(
    positions: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    interleaved: bool,
) -> None:
    """As `kernels_npu.reference.rotary_embedding`; in place."""
    require_dense_last("rotary_embedding", query=query, key=key)
    cos_sin = dense_last(cos_sin_cache)
    tokens, half = query.shape[0], cos_sin.shape[1] // 2
    groups = triton.cdiv(query.shape[1], _HEADS) + triton.cdiv(key.shape[1], _HEADS)
    if not tokens or not half or not groups:
        return
    _rotary[(tokens, groups)](
        positions.contiguous(),
        query,
        key,
        cos_sin,
        query.stride(0),
        query.stride(1),
        key.stride(0),
        key.stride(1),
        cos_sin.stride(0),
        query.shape[1],
        key.shape[1],
        half,
        INTERLEAVED=interleaved,
        HEADS=_HEADS,
        HALF_PAD=triton.next_power_of_2(half),
        num_warps=2,
    )
