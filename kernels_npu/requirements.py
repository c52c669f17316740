"""What the kernels cover: raised as UnsupportedError before a kernel is chosen or built.

No dialect is imported here, so that the registry can decide without loading one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from kernels_npu.attention.tiling import decode_tiling
from kernels_npu.errors import UnsupportedError

MAX_HIDDEN = 16384
MAX_HEAD_DIM = 256
#: A contiguous run of a vector operand has to start on a 32-byte boundary: 16 elements of 16 bits.
_STEP = 16
#: Kernels compute element offsets in 32 bits.
_MAX_ELEMENTS = 2**31


def _unsupported(what: str, rule: str, fix: str) -> UnsupportedError:
    return UnsupportedError("AI-OP-006", what, rule=rule, fix=fix)


def hidden_size(op: str, hidden: int) -> None:
    """Rows of a normalisation: a multiple of 16 up to 16384 elements."""
    if hidden % _STEP or not 0 < hidden <= MAX_HIDDEN:
        raise _unsupported(
            f"{op}: hidden size {hidden} is not a multiple of {_STEP} up to {MAX_HIDDEN}",
            "a row stays in the unified buffer and starts on a 32-byte boundary",
            f"pad the hidden dimension to a multiple of {_STEP}",
        )


def addressable(op: str, **tensors: torch.Tensor) -> None:
    """Tensors small enough for 32-bit element offsets."""
    for name, tensor in tensors.items():
        if tensor.numel() >= _MAX_ELEMENTS:
            raise _unsupported(
                f"{op}: {name} has {tensor.numel()} elements, the limit is {_MAX_ELEMENTS - 1}",
                "the compiler computes element offsets in 32 bits",
                f"split {name}; a KV cache of one layer holds fewer blocks",
            )


def rms_norm(x: torch.Tensor, *_: Any) -> None:
    """See `hidden_size`."""
    hidden_size("rms_norm", x.shape[-1])


def add_rms_norm(x: torch.Tensor, *_: Any) -> None:
    """See `hidden_size`."""
    hidden_size("add_rms_norm", x.shape[-1])


def fused_add_rms_norm(x: torch.Tensor, *_: Any) -> None:
    """See `hidden_size`."""
    hidden_size("fused_add_rms_norm", x.shape[-1])


def silu_and_mul(x: torch.Tensor) -> None:
    """An intermediate size that is a multiple of 16."""
    inter = x.shape[-1] // 2
    if inter % _STEP or inter == 0 or x.shape[-1] % 2:
        raise _unsupported(
            f"silu_and_mul: rows of {x.shape[-1]} elements are not twice a multiple of {_STEP}",
            "gate and up start on a 32-byte boundary",
            f"pad the intermediate size to a multiple of {_STEP}",
        )


def rotary_embedding(
    positions: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    interleaved: bool,
) -> None:
    """See `rotated_heads`."""
    heads = {"query": query.shape[1], "key": key.shape[1]}
    rotated_heads("rotary_embedding", heads, query.shape[2], cos_sin_cache, interleaved)


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
    """See `rotated_heads`."""
    heads = {"query": num_q_heads, "key": num_kv_heads}
    rotated_heads("split_qkv_rmsnorm_rope", heads, q_weight.shape[0], cos_sin_cache, False)


def rotated_heads(
    op: str, heads: dict[str, int], head_dim: int, cos_sin_cache: torch.Tensor, interleaved: bool
) -> None:
    """Rotated elements that vector operands can start at: 32 (half split) or 16 (interleaved)."""
    for name, count in heads.items():
        if count == 0:
            raise _unsupported(
                f"{op}: {name} has 0 heads",
                "both are rotated in one launch",
                "use the reference (registry.strict(False))",
            )
    rotary_dim, step = cos_sin_cache.shape[-1], _STEP if interleaved else 2 * _STEP
    if rotary_dim % step or rotary_dim == 0:
        style = "interleaved" if interleaved else "half-split"
        raise _unsupported(
            f"{op}: {style} rotary_dim {rotary_dim} is not a multiple of {step}",
            "each rotated part of a head starts on a 32-byte boundary",
            "use the reference (registry.strict(False)) or pad the rotary dimension",
        )
    if head_dim % _STEP or head_dim > MAX_HEAD_DIM:
        raise _unsupported(
            f"{op}: head_dim {head_dim} is not a multiple of {_STEP} up to {MAX_HEAD_DIM}",
            "each head starts on a 32-byte boundary",
            "use the reference (registry.strict(False))",
        )
    addressable(op, cos_sin_cache=cos_sin_cache)


def reshape_and_cache(
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> None:
    """Blocks with slots, heads of n * 16 elements, tokens whose keys fit the unified buffer."""
    if key_cache.shape[1] == 0:
        raise _unsupported(
            "reshape_and_cache: key_cache has blocks of 0 slots",
            "a slot is a block and a place in it",
            "allocate the KV cache with block_size 16, 32, 64 or 128",
        )
    kv_heads, head_dim = key.shape[-2:]
    if head_dim % _STEP or not 0 < kv_heads * head_dim <= MAX_HIDDEN:
        raise _unsupported(
            f"reshape_and_cache: {kv_heads} KV heads of {head_dim} elements: head_dim must be a "
            f"multiple of {_STEP} and a token's heads at most {MAX_HIDDEN} elements, not none",
            "a token's keys and values pass through the unified buffer",
            "use the reference (registry.strict(False))",
        )
    addressable("reshape_and_cache", key_cache=key_cache, value_cache=value_cache)


def paged_decode_attention(
    query: torch.Tensor, key_cache: torch.Tensor, value_cache: torch.Tensor, *_: Any
) -> None:
    """See `attention.tiling.DecodeTiling`."""
    q_heads, head_dim = query.shape[-2:]
    block_size, kv_heads = key_cache.shape[-3:-1]
    decode_tiling(q_heads, kv_heads, head_dim, block_size)
    addressable("paged_decode_attention", key_cache=key_cache, value_cache=value_cache)


REQUIREMENTS: dict[str, Callable[..., None]] = {
    "rms_norm": rms_norm,
    "add_rms_norm": add_rms_norm,
    "fused_add_rms_norm": fused_add_rms_norm,
    "silu_and_mul": silu_and_mul,
    "rotary_embedding": rotary_embedding,
    "split_qkv_rmsnorm_rope": split_qkv_rmsnorm_rope,
    "reshape_and_cache": reshape_and_cache,
    "paged_decode_attention": paged_decode_attention,
}
