"""Rotary position embedding of queries and keys in one launch, alone or fused with their norms."""

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


@triton.jit
def _split_norm_rope(
    qkv,
    q_weight,
    k_weight,
    positions,
    cos_sin,
    query,
    key,
    value,
    qkv_row,
    cos_sin_row,
    eps,
    q_heads,
    kv_heads,
    head_dim,
    half,
    DIM_PAD: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    element = tl.arange(0, DIM_PAD)
    inside = element < head_dim
    source = qkv + token * qkv_row + head * head_dim
    x = tl.load(source + element, mask=inside, other=0.0)
    if head >= q_heads + kv_heads:
        first = head - q_heads - kv_heads
        tl.store(value + (token * kv_heads + first) * head_dim + element, x, mask=inside)
    else:
        # The other half's element of the pair, with the sine's sign; 0 beside what is not rotated.
        rotated = element < 2 * half
        pair = tl.where(element < half, element + half, element - half)
        wide = x.to(tl.float32)
        scale = tl.rsqrt(tl.sum(wide * wide, 0) / head_dim + eps)
        other = tl.load(source + pair, mask=rotated, other=0.0).to(tl.float32)
        weight = q_weight if head < q_heads else k_weight
        w = tl.load(weight + element, mask=inside, other=0.0).to(tl.float32)
        w_other = tl.load(weight + pair, mask=rotated, other=0.0).to(tl.float32)
        angle = cos_sin + tl.load(positions + token).to(tl.int64) * cos_sin_row + element % half
        cos = tl.load(angle, mask=rotated, other=1.0).to(tl.float32)
        sin = tl.load(angle + half, mask=rotated, other=0.0).to(tl.float32)
        sin = tl.where(element < half, -sin, sin)
        turned = (wide * scale * w * cos + other * scale * w_other * sin).to(x.dtype)
        if head < q_heads:
            tl.store(query + (token * q_heads + head) * head_dim + element, turned, mask=inside)
        else:
            first = head - q_heads
            tl.store(key + (token * kv_heads + first) * head_dim + element, turned, mask=inside)


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
    """As `kernels_npu.reference.split_qkv_rmsnorm_rope`."""
    qkv, cos_sin = dense_last(qkv), dense_last(cos_sin_cache)
    tokens, head_dim = qkv.shape[0], q_weight.shape[0]
    query, key, value = (
        torch.empty(tokens, heads * head_dim, dtype=qkv.dtype, device=qkv.device)
        for heads in (num_q_heads, num_kv_heads, num_kv_heads)
    )
    if qkv.numel():
        _split_norm_rope[(tokens, num_q_heads + 2 * num_kv_heads)](
            qkv,
            q_weight.contiguous(),
            k_weight.contiguous(),
            positions.contiguous(),
            cos_sin,
            query,
            key,
            value,
            qkv.stride(0),
            cos_sin.stride(0),
            eps,
            num_q_heads,
            num_kv_heads,
            head_dim,
            max(cos_sin.shape[1] // 2, 1),
            DIM_PAD=triton.next_power_of_2(head_dim),
            num_warps=2,
        )
    return query, key, value
