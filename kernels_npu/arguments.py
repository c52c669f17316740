"""What every implementation of an operator asks of its arguments: fitting dtypes, shapes, ranges.

The registry looks before a reference runs, a kernel's own `check` begins with it. Where
broadcasting would make something of a wrong shape, an error says what was expected. Kernels ask for
more: see the `check` of each, and `requirements`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from kernels_npu.checking import (
    FLOAT32_MAX,
    INT32_MAX,
    require_dtype,
    require_floating,
    require_multiple,
    require_range,
    require_shape,
)


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> None:
    """`x[rows, hidden]`, `weight[hidden]`, eps not negative."""
    op = "rms_norm"
    require_floating(op, "x", x)
    require_shape(op, "x", x, None, None)
    require_dtype(op, "weight", weight, x.dtype)
    require_shape(op, "weight", weight, x.shape[1])
    require_range(op, "eps", eps, 0.0, FLOAT32_MAX)


def add_rms_norm(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    op: str = "add_rms_norm",
) -> None:
    """`x` and `residual` `[rows, hidden]`, `weight[hidden]`, eps not negative."""
    require_floating(op, "x", x)
    require_shape(op, "x", x, None, None)
    require_dtype(op, "residual", residual, x.dtype)
    require_shape(op, "residual", residual, *x.shape)
    require_dtype(op, "weight", weight, x.dtype)
    require_shape(op, "weight", weight, x.shape[1])
    require_range(op, "eps", eps, 0.0, FLOAT32_MAX)


def fused_add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> None:
    """As `add_rms_norm`."""
    add_rms_norm(x, residual, weight, eps, "fused_add_rms_norm")


def silu_and_mul(x: torch.Tensor) -> None:
    """`x[rows, 2 * inter]`."""
    require_floating("silu_and_mul", "x", x)
    require_shape("silu_and_mul", "x", x, None, None)
    require_multiple(
        "silu_and_mul", "the columns of x", x.shape[1], 2, "gate and up are equally wide"
    )


def rotary_embedding(
    positions: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    interleaved: bool,
) -> None:
    """`positions[tokens]`, heads `[tokens, heads, head_dim]`, a cache no wider than a head."""
    op = "rotary_embedding"
    require_floating(op, "query", query)
    require_shape(op, "query", query, None, None, None)
    require_dtype(op, "key", key, query.dtype)
    require_shape(op, "key", key, query.shape[0], None, query.shape[2])
    _angles(op, positions, cos_sin_cache, query.dtype, query.shape[0], query.shape[2])


def split_qkv_rmsnorm_rope(
    qkv: torch.Tensor,
    q_weight: torch.Tensor,
    k_weight: torch.Tensor,
    eps: float,
    positions: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    num_q_heads: int,
    num_kv_heads: int,
) -> None:
    """Rows of `num_q_heads + 2 * num_kv_heads` heads, weights of one; angles as for rotation."""
    op = "split_qkv_rmsnorm_rope"
    require_floating(op, "qkv", qkv)
    require_dtype(op, "q_weight", q_weight, qkv.dtype)
    require_shape(op, "q_weight", q_weight, None)
    require_dtype(op, "k_weight", k_weight, qkv.dtype)
    require_shape(op, "k_weight", k_weight, *q_weight.shape)
    require_range(op, "num_q_heads", num_q_heads, 0, INT32_MAX)
    require_range(op, "num_kv_heads", num_kv_heads, 0, INT32_MAX)
    heads = num_q_heads + 2 * num_kv_heads
    require_shape(op, "qkv", qkv, None, heads * q_weight.shape[0])
    require_range(op, "eps", eps, 0.0, FLOAT32_MAX)
    _angles(op, positions, cos_sin_cache, qkv.dtype, qkv.shape[0], q_weight.shape[0])


def _angles(
    op: str,
    positions: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    dtype: torch.dtype,
    tokens: int,
    head_dim: int,
) -> None:
    """`positions[tokens]` and a cache no wider than a head, of its dtype or float32."""
    require_dtype(op, "positions", positions, torch.int32, torch.int64)
    require_shape(op, "positions", positions, tokens)
    require_dtype(op, "cos_sin_cache", cos_sin_cache, dtype, torch.float32)
    require_shape(op, "cos_sin_cache", cos_sin_cache, None, None)
    if cos_sin_cache.shape[1] > head_dim:
        require_shape(op, "cos_sin_cache", cos_sin_cache, None, head_dim)
    columns = "the columns of cos_sin_cache"
    require_multiple(op, columns, cos_sin_cache.shape[1], 2, "a row is cosines, then as many sines")


def reshape_and_cache(
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> None:
    """Rows `[tokens, kv_heads, head_dim]`, caches of such rows, `slot_mapping[tokens]`."""
    op = "reshape_and_cache"
    require_floating(op, "key", key)
    require_shape(op, "key", key, None, None, None)
    for name, tensor, shape in (
        ("value", value, tuple(key.shape)),
        ("key_cache", key_cache, (None, None, *key.shape[1:])),
    ):
        require_dtype(op, name, tensor, key.dtype)
        require_shape(op, name, tensor, *shape)
    require_dtype(op, "value_cache", value_cache, key.dtype)
    require_shape(op, "value_cache", value_cache, *key_cache.shape)
    require_dtype(op, "slot_mapping", slot_mapping, torch.int32)
    require_shape(op, "slot_mapping", slot_mapping, key.shape[0])


def paged_decode_attention(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    scale: float,
    sliding_window: int = 0,
    logits_soft_cap: float = 0.0,
) -> None:
    """`query[batch, q_heads, head_dim]`, caches, a row of the table and a length per sequence."""
    op = "paged_decode_attention"
    require_floating(op, "query", query)
    require_shape(op, "query", query, None, None, None)
    require_dtype(op, "key_cache", key_cache, query.dtype)
    require_shape(op, "key_cache", key_cache, None, None, None, query.shape[2])
    require_dtype(op, "value_cache", value_cache, query.dtype)
    require_shape(op, "value_cache", value_cache, *key_cache.shape)
    heads, kv_heads = query.shape[1], key_cache.shape[2]
    reason = f"each of key_cache's {kv_heads} heads serves the same number of query heads"
    require_multiple(op, "the number of query heads", heads, kv_heads, reason)
    require_dtype(op, "block_table", block_table, torch.int32)
    require_shape(op, "block_table", block_table, query.shape[0], None)
    require_dtype(op, "seq_lens", seq_lens, torch.int32)
    require_shape(op, "seq_lens", seq_lens, query.shape[0])
    require_range(op, "scale", scale, 0.0, FLOAT32_MAX, above=True)
    require_range(op, "sliding_window", sliding_window, 0, INT32_MAX)
    require_range(op, "logits_soft_cap", logits_soft_cap, 0.0, FLOAT32_MAX)
    if logits_soft_cap > 0:  # scores are multiplied by 2 * scale / cap in float32
        lowest = 2 * scale / FLOAT32_MAX
        require_range(op, "logits_soft_cap", logits_soft_cap, lowest, FLOAT32_MAX)


ARGUMENTS: dict[str, Callable[..., None]] = {
    "rms_norm": rms_norm,
    "add_rms_norm": add_rms_norm,
    "fused_add_rms_norm": fused_add_rms_norm,
    "silu_and_mul": silu_and_mul,
    "rotary_embedding": rotary_embedding,
    "split_qkv_rmsnorm_rope": split_qkv_rmsnorm_rope,
    "reshape_and_cache": reshape_and_cache,
    "paged_decode_attention": paged_decode_attention,
}
