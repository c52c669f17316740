"""torch_npu's operators as its documentation describes them, in plain PyTorch on the host."""

from __future__ import annotations

import torch
from torch import Tensor


def npu_rms_norm(self: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> tuple[Tensor, Tensor]:
    x = self.cpu().double()
    rstd = (x.square().mean(-1, keepdim=True) + epsilon).rsqrt()
    out = x * rstd * gamma.cpu().double()
    return out.to(self.dtype).to(self.device), rstd.float().to(self.device)


def npu_add_rms_norm(
    x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float = 1e-6
) -> tuple[Tensor, Tensor, Tensor]:
    total = (x1.cpu().float() + x2.cpu().float()).to(x1.dtype).to(x1.device)
    out, rstd = npu_rms_norm(total, gamma, epsilon)
    return out, rstd, total


def npu_scatter_pa_kv_cache(
    key: Tensor,
    value: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    slot_mapping: Tensor,
    *,
    cache_mode: str = "PA_NZ",
) -> None:
    assert cache_mode == "Norm", "the caches are given as [blocks, block_size, heads, head_dim]"
    block_size = key_cache.shape[1]
    for new, cache in ((key, key_cache), (value, value_cache)):
        updated = cache.cpu()
        for token, slot in enumerate(slot_mapping.tolist()):
            updated[slot // block_size, slot % block_size] = new[token].cpu()
        cache.copy_(updated)


def npu_fused_infer_attention_score(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    actual_seq_lengths_kv: list[int],
    block_table: Tensor,
    num_heads: int,
    num_key_value_heads: int,
    scale: float,
    input_layout: str,
    block_size: int,
) -> tuple[Tensor, Tensor]:
    """BSH with paged keys and values, `[blocks, block_size, heads * head_dim]`."""
    assert input_layout == "BSH"
    assert block_size == key.shape[1]
    _, steps, width = query.shape
    assert steps == 1
    head_dim, out = width // num_heads, torch.empty_like(query, device="cpu")
    table = block_table.cpu()
    for row, length in enumerate(actual_seq_lengths_kv):
        q = query[row, 0].cpu().double().view(num_heads, head_dim)
        k, v = (
            torch.cat([paged[block].cpu() for block in table[row, : -(-length // block_size)]])
            .double()[:length]
            .view(length, num_key_value_heads, head_dim)
            .repeat_interleave(num_heads // num_key_value_heads, 1)
            for paged in (key, value)
        )
        weights = torch.softmax(torch.einsum("hd,khd->hk", q, k) * scale, -1)
        out[row, 0] = torch.einsum("hk,khd->hd", weights, v).flatten().to(out.dtype)
    return out.to(query.device), query.new_empty(0)


OPERATORS = {
    function.__name__: function
    for function in (
        npu_rms_norm,
        npu_add_rms_norm,
        npu_scatter_pa_kv_cache,
        npu_fused_infer_attention_score,
    )
}
