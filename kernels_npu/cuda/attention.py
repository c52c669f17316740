"""Decode attention over a paged cache: keys in splits, then a merge.

A program serves one KV head of one sequence over a run of keys, for all query heads that share it,
so that every key and value is read once. How long a run is depends on the shapes alone: as many
programs as fill the device, and in a batch that does so by itself, one per sequence and KV head.
Splits beyond a length end at once.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels_npu.cuda.rows import dense_last

#: Keys per step of a program.
_KEYS = 64
#: Programs to aim at: a few per multiprocessor of a large device. The most splits of a sequence.
_PROGRAMS, _MOST_SPLITS = 528, 256
#: tl.dot takes no fewer rows.
_FEWEST_ROWS = 16


@triton.jit
def _attend(
    query,
    key_cache,
    value_cache,
    block_table,
    seq_lens,
    partial,
    weights,
    scale,
    soft_cap,
    window,
    query_row,
    query_head,
    key_block,
    key_token,
    key_head,
    value_block,
    value_token,
    value_head,
    table_row,
    num_blocks,
    group,
    dim,
    split_keys,
    splits,
    SPLIT: tl.constexpr,
    CAPPED: tl.constexpr,
    WINDOWED: tl.constexpr,
    BLOCK: tl.constexpr,
    KEYS: tl.constexpr,
    ROWS: tl.constexpr,
    DIM: tl.constexpr,
):
    sequence = tl.program_id(0).to(tl.int64)
    kv_head = tl.program_id(1)
    split = tl.program_id(2)
    row, element = tl.arange(0, ROWS), tl.arange(0, DIM)
    heads = tl.num_programs(1) * group
    inside = (row < group)[:, None] & (element < dim)[None, :]
    length = tl.load(seq_lens + sequence)
    end = tl.minimum(length, (split + 1) * split_keys)
    begin = split * split_keys
    oldest = 0
    if WINDOWED:
        oldest = tl.maximum(length - window, 0)
        begin = tl.maximum(begin, oldest // KEYS * KEYS)
    head = kv_head * group + row
    q = tl.load(
        query + sequence * query_row + head[:, None] * query_head + element[None, :],
        mask=inside,
        other=0.0,
    )
    highest = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    result = tl.zeros([ROWS, DIM], tl.float32)
    for position in range(begin, end, KEYS):
        keys = position + tl.arange(0, KEYS)
        seen = (keys < end) & (keys >= oldest)
        block = tl.load(block_table + sequence * table_row + keys // BLOCK, mask=seen, other=0)
        block = tl.minimum(tl.maximum(block, 0), num_blocks - 1).to(tl.int64)
        read = seen[:, None] & (element < dim)[None, :]
        k = tl.load(
            key_cache
            + (block * key_block + keys % BLOCK * key_token + kv_head * key_head)[:, None]
            + element[None, :],
            mask=read,
            other=0.0,
        )
        scores = tl.dot(q, tl.trans(k)) * scale
        if CAPPED:
            scores = soft_cap * (1.0 - 2.0 / (tl.exp(2.0 * scores / soft_cap) + 1.0))
        scores = tl.where(seen[None, :], scores, float("-inf"))
        # At least one key of the step is seen, so the maximum is finite from here on.
        higher = tl.maximum(highest, tl.max(scores, 1))
        decay = tl.exp(highest - higher)
        likely = tl.exp(scores - higher[:, None])
        v = tl.load(
            value_cache
            + (block * value_block + keys % BLOCK * value_token + kv_head * value_head)[:, None]
            + element[None, :],
            mask=read,
            other=0.0,
        )
        result = result * decay[:, None] + tl.dot(likely.to(v.dtype), v)
        total = total * decay + tl.sum(likely, 1)
        highest = higher
    place = (sequence * heads + head) * splits + split
    result = result / tl.where(total > 0.0, total, 1.0)[:, None]
    at = partial + place[:, None] * dim + element[None, :]
    if not SPLIT:
        tl.store(at, result.to(partial.dtype.element_ty), mask=inside)
    elif begin < end:
        tl.store(at, result, mask=inside)
        tl.store(weights + place, highest + tl.log(total), mask=row < group)
    else:
        tl.store(weights + place, highest, mask=row < group)


@triton.jit
def _merge(partial, weights, out, splits, dim, SPLITS: tl.constexpr, DIM: tl.constexpr):
    head = tl.program_id(0).to(tl.int64)
    split, element = tl.arange(0, SPLITS), tl.arange(0, DIM)
    weight = tl.load(weights + head * splits + split, mask=split < splits, other=float("-inf"))
    highest = tl.max(weight, 0)
    share = tl.where(weight == float("-inf"), 0.0, tl.exp(weight - highest))
    # What an empty split has not written is not read.
    parts = tl.load(
        partial + (head * splits + split)[:, None] * dim + element[None, :],
        mask=(share > 0.0)[:, None] & (element < dim)[None, :],
        other=0.0,
    )
    total = tl.sum(share, 0)
    result = tl.sum(parts * share[:, None], 0) / tl.where(total > 0.0, total, 1.0)
    tl.store(out + head * dim + element, result.to(out.dtype.element_ty), mask=element < dim)


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
    """As `kernels_npu.reference.paged_decode_attention`, for head_dim up to 256."""
    query, key_cache, value_cache = map(dense_last, (query, key_cache, value_cache))
    batch, q_heads, dim = query.shape
    num_blocks, block_size, kv_heads, _ = key_cache.shape
    out = torch.empty(batch, q_heads, dim, dtype=query.dtype, device=query.device)
    width = block_table.shape[1] * block_size
    if not out.numel():
        return out
    if not width or not num_blocks:
        return out.zero_()
    wanted = min(max(_PROGRAMS // (batch * kv_heads), 1), _MOST_SPLITS)
    keys = triton.cdiv(triton.cdiv(width, wanted), _KEYS) * _KEYS
    splits = triton.cdiv(width, keys)
    partial = weights = out
    if splits > 1:
        partial, weights = (
            torch.empty(batch, q_heads, splits, size, dtype=torch.float32, device=query.device)
            for size in (dim, 1)
        )
    padded_dim = max(_FEWEST_ROWS, triton.next_power_of_2(dim))
    table = dense_last(block_table)
    _attend[(batch, kv_heads, splits)](
        query,
        key_cache,
        value_cache,
        table,
        seq_lens.contiguous(),
        partial,
        weights,
        scale,
        logits_soft_cap,
        sliding_window,
        query.stride(0),
        query.stride(1),
        key_cache.stride(0),
        key_cache.stride(1),
        key_cache.stride(2),
        value_cache.stride(0),
        value_cache.stride(1),
        value_cache.stride(2),
        table.stride(0),
        num_blocks,
        q_heads // kv_heads,
        dim,
        keys,
        splits,
        SPLIT=splits > 1,
        CAPPED=logits_soft_cap > 0,
        WINDOWED=sliding_window > 0,
        BLOCK=block_size,
        KEYS=_KEYS,
        ROWS=max(_FEWEST_ROWS, triton.next_power_of_2(q_heads // kv_heads)),
        DIM=padded_dim,
        num_warps=4,
        num_stages=2,
    )
    if splits == 1:
        return out
    _merge[(batch * q_heads,)](
        partial,
        weights,
        out,
        splits,
        dim,
        SPLITS=triton.next_power_of_2(splits),
        DIM=padded_dim,
    )
    return out
