"""The operators: `torch.ops.ascend_infer.*`, one node each in a graph.

Wrong arguments are an error that names them, on every device. Kernels on `npu` take contiguous
float16 or bfloat16, compute in float32 and round once; the references on `cpu` and `cuda` also take
float32 and float64. `kernels_npu.registry` chooses and counts.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import torch

from kernels_npu import registry
from kernels_npu.arguments import ARGUMENTS
from kernels_npu.requirements import REQUIREMENTS

_library = torch.library.Library("ascend_infer", "DEF")
_KEYS = ("CPU", "CUDA", "PrivateUse1")


def _define(
    schema: str,
    module: str,
    kind: Callable[..., Hashable],
    fake: Callable[..., Any],
) -> Any:
    """Define an operator, implemented by the registry on every device; returns its overload."""
    name = schema.partition("(")[0]

    def kernel() -> Callable[..., Any]:
        import importlib

        function: Callable[..., Any] = getattr(
            importlib.import_module(f"kernels_npu.{module}.{name}"), name
        )
        return function

    _library.define(schema)
    overload = getattr(torch.ops.ascend_infer, name).default
    operator = registry.register(
        registry.Operator(
            name=name,
            parameters=tuple(argument.name for argument in overload._schema.arguments),
            kernel=kernel,
            arguments=ARGUMENTS[name],
            requires=REQUIREMENTS[name],
            kind=kind,
        )
    )
    for key in _KEYS:
        _library.impl(name, operator.__call__, key)
    torch.library.register_fake(f"ascend_infer::{name}", fake, lib=_library)
    return overload


def _nothing(*_args: Any) -> None:
    return None


_rms_norm = _define(
    "rms_norm(Tensor x, Tensor weight, float eps) -> Tensor",
    "normalization",
    lambda x, weight, eps: (x.dtype, x.shape[1:]),
    lambda x, weight, eps: torch.empty_like(x),
)
_add_rms_norm = _define(
    "add_rms_norm(Tensor x, Tensor(a!) residual, Tensor weight, float eps) -> Tensor",
    "normalization",
    lambda x, residual, weight, eps: (x.dtype, x.shape[1:]),
    lambda x, residual, weight, eps: torch.empty_like(x),
)
_fused_add_rms_norm = _define(
    "fused_add_rms_norm(Tensor x, Tensor residual, Tensor weight, float eps) -> (Tensor, Tensor)",
    "normalization",
    lambda x, residual, weight, eps: (x.dtype, x.shape[1:]),
    lambda x, residual, weight, eps: (torch.empty_like(x), torch.empty_like(x)),
)
_rotary_embedding = _define(
    "rotary_embedding(Tensor positions, Tensor(a!) query, Tensor(b!) key, Tensor cos_sin_cache, "
    "bool interleaved) -> ()",
    "rotary",
    lambda positions, query, key, cache, interleaved: (
        query.dtype,
        query.shape[1:],
        key.shape[1:],
        cache.shape,
        interleaved,
    ),
    _nothing,
)
_split_qkv_rmsnorm_rope = _define(
    "split_qkv_rmsnorm_rope(Tensor qkv, Tensor q_weight, Tensor k_weight, float eps, "
    "Tensor positions, Tensor cos_sin_cache, int num_q_heads, int num_kv_heads) "
    "-> (Tensor, Tensor, Tensor)",
    "rotary",
    lambda qkv, q_weight, k_weight, eps, positions, cache, num_q_heads, num_kv_heads: (
        qkv.dtype,
        q_weight.shape,
        cache.shape,
        num_q_heads,
        num_kv_heads,
    ),
    lambda qkv, q_weight, k_weight, eps, positions, cache, num_q_heads, num_kv_heads: tuple(
        qkv.new_empty((qkv.shape[0], heads * q_weight.shape[0]))
        for heads in (num_q_heads, num_kv_heads, num_kv_heads)
    ),
)
_reshape_and_cache = _define(
    "reshape_and_cache(Tensor key, Tensor value, Tensor(a!) key_cache, Tensor(b!) value_cache, "
    "Tensor slot_mapping) -> ()",
    "kv_cache",
    lambda key, value, key_cache, value_cache, slots: (key.dtype, key.shape[1:], key_cache.shape),
    _nothing,
)
_paged_decode_attention = _define(
    "paged_decode_attention(Tensor query, Tensor key_cache, Tensor value_cache, "
    "Tensor block_table, Tensor seq_lens, float scale, int sliding_window=0, "
    "float logits_soft_cap=0.0) -> Tensor",
    "attention",
    lambda query, key_cache, *_: (query.dtype, query.shape[1:], key_cache.shape),
    lambda query, *_: torch.empty_like(query),
)
_silu_and_mul = _define(
    "silu_and_mul(Tensor x) -> Tensor",
    "activation",
    lambda x: (x.dtype, x.shape[1:]),
    lambda x: x.new_empty((*x.shape[:-1], x.shape[-1] // 2)),
)


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Normalise each row by its root mean square: `x / sqrt(mean(x^2) + eps) * weight`.

    Args:
        x: `[rows, hidden]`. weight: `[hidden]`. eps: added to the mean of squares.

    Returns:
        `[rows, hidden]` of `x`'s dtype.
    """
    out: torch.Tensor = _rms_norm(x, weight, eps)
    return out


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> torch.Tensor:
    """`residual += x` in place, rounded; returns `rms_norm(residual, weight, eps)`.

    Args:
        x, residual: `[rows, hidden]`. weight: `[hidden]`. eps: added to the mean of squares.
    """
    out: torch.Tensor = _add_rms_norm(x, residual, weight, eps)
    return out


def fused_add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """`total = x + residual`, rounded; returns `(rms_norm(total, weight, eps), total)`.

    As `add_rms_norm`, for graphs whose operators may not write their arguments.

    Args:
        x, residual: `[rows, hidden]`. weight: `[hidden]`. eps: added to the mean of squares.
    """
    out, total = _fused_add_rms_norm(x, residual, weight, eps)
    return out, total


def rotary_embedding(
    positions: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    interleaved: bool = False,
) -> None:
    """Rotate the first `rotary_dim` elements of every head of `query` and `key`, in place.

    Args:
        positions: `[tokens]` int32 or int64, read on the device.
        query: `[tokens, num_q_heads, head_dim]`. key: `[tokens, num_kv_heads, head_dim]`.
        cos_sin_cache: `[max_position, rotary_dim]`, cosines in the first half of a row, sines in
            the second; of the heads' dtype or float32.
        interleaved: pairs are (2i, 2i + 1) instead of (i, i + rotary_dim / 2).
    """
    _rotary_embedding(positions, query, key, cos_sin_cache, interleaved)


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
    """Split a projection, normalise each head of q and k, rotate them; one rounding at the end.

    Args:
        qkv: `[tokens, (num_q_heads + 2 * num_kv_heads) * head_dim]`.
        q_weight, k_weight: `[head_dim]`. eps: added to the mean of squares.
        positions: `[tokens]` int32 or int64, read on the device.
        cos_sin_cache: `[max_position, rotary_dim]`, cosines in the first half of a row, sines in
            the second; of qkv's dtype or float32. Pairs are (i, i + rotary_dim / 2).

    Returns:
        query `[tokens, num_q_heads * head_dim]`, key and value `[tokens, num_kv_heads * head_dim]`.
    """
    query, key, value = _split_qkv_rmsnorm_rope(
        qkv, q_weight, k_weight, eps, positions, cos_sin_cache, num_q_heads, num_kv_heads
    )
    return query, key, value


def reshape_and_cache(
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> None:
    """Store each token's key and value in the paged cache; a token with slot -1 stores nothing.

    Args:
        key, value: `[tokens, num_kv_heads, head_dim]`.
        key_cache, value_cache: `[num_blocks, block_size, num_kv_heads, head_dim]`; updated.
        slot_mapping: `[tokens]` int32: `block * block_size + offset`, or -1.
    """
    _reshape_and_cache(key, value, key_cache, value_cache, slot_mapping)


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
    """Attention of one new token per sequence over its keys in the paged cache.

    Args:
        query: `[batch, num_q_heads, head_dim]`; heads of one group share a KV head.
        key_cache, value_cache: `[num_blocks, block_size, num_kv_heads, head_dim]`.
        block_table: `[batch, max_blocks]` int32, the blocks of each sequence in order.
        seq_lens: `[batch]` int32, keys of each sequence, the new token's included; read on the
            device. A row with 0 reads nothing and gives zeros.
        scale: factor of the scores. sliding_window: only the last so many keys count; 0 is all.
        logits_soft_cap: scores become `cap * tanh(score / cap)`; 0 is off.

    Returns:
        `[batch, num_q_heads, head_dim]` of `query`'s dtype.
    """
    out: torch.Tensor = _paged_decode_attention(
        query, key_cache, value_cache, block_table, seq_lens, scale, sliding_window, logits_soft_cap
    )
    return out


def silu_and_mul(x: torch.Tensor) -> torch.Tensor:
    """`silu(gate) * up` of `x[rows, 2 * inter]`, whose rows are `[gate | up]`.

    Returns:
        `[rows, inter]` of `x`'s dtype.
    """
    out: torch.Tensor = _silu_and_mul(x)
    return out
