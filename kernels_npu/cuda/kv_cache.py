"""Writing new keys and values into the paged cache, one program per token."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels_npu.cuda.rows import dense_last, require_dense_last


@triton.jit
def _store_row(
    key,
    value,
    key_cache,
    value_cache,
    slots,
    key_row,
    key_head,
    value_row,
    value_head,
    block_size,
    key_block,
    key_token,
    value_block,
    value_token,
    heads,
    dim,
    HEADS_PAD: tl.constexpr,
    DIM_PAD: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + token).to(tl.int64)
    if slot >= 0:
        head = tl.arange(0, HEADS_PAD)[:, None]
        element = tl.arange(0, DIM_PAD)[None, :]
        inside = (head < heads) & (element < dim)
        block, offset = slot // block_size, slot % block_size
        row = head * dim + element
        new_key = tl.load(key + token * key_row + head * key_head + element, mask=inside)
        tl.store(key_cache + block * key_block + offset * key_token + row, new_key, mask=inside)
        new = tl.load(value + token * value_row + head * value_head + element, mask=inside)
        tl.store(value_cache + block * value_block + offset * value_token + row, new, mask=inside)


def reshape_and_cache(
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> None:
    """As `kernels_npu.reference.reshape_and_cache`; a row without a slot is not even read."""
    require_dense_last("reshape_and_cache", key_cache=key_cache, value_cache=value_cache)
    key, value = dense_last(key), dense_last(value)
    tokens, heads, dim = key.shape
    if not key.numel():
        return
    _store_row[(tokens,)](
        key,
        value,
        key_cache,
        value_cache,
        slot_mapping.contiguous(),
        key.stride(0),
        key.stride(1),
        value.stride(0),
        value.stride(1),
        key_cache.shape[1],
        key_cache.stride(0),
        key_cache.stride(1),
        value_cache.stride(0),
        value_cache.stride(1),
        heads,
        dim,
        HEADS_PAD=triton.next_power_of_2(heads),
        DIM_PAD=triton.next_power_of_2(dim),
    )
