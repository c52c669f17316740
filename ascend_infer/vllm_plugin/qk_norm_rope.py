"""Qwen3's attention with split, norms and rotation as one operator of ours.

The host has already put a function of its own in the place of vLLM's `forward`; ours stands before
that one and leaves to it every layer that the operator does not cover. So it holds in eager mode
and in each way of compiling, where a pattern over a graph would need one form per compiler.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch

from ascend_infer.vllm_plugin import calls, trial
from ascend_infer.vllm_plugin.decision import decision
from ascend_infer.vllm_plugin.layers import rms_norm_reason, rotary_reason
from ascend_infer.vllm_plugin.reasons import unserved
from kernels_npu import ops
from kernels_npu.requirements import rotated_heads

OP = "qk_norm_rope"


def replace(layers: Mapping[Any, Any]) -> None:
    """Put ours before the host's function in Qwen3's layers, once.

    layers: the classes -> the `forward` that each is known with; None where it is missing.
    """
    for layer, known in layers.items():
        if hasattr(layer, "ascend_infer_reason"):
            continue
        if known is None or layer.forward is not known:
            calls.warn(OP, f"{layer.__name__}.forward is not the host's function that is known")
            continue
        layer.__init__ = _deciding(layer)
        layer.forward = _forward(known)
        layer.ascend_infer_reason = "not decided"


def _deciding(layer: Any) -> Callable[..., None]:
    build = layer.__init__

    @functools.wraps(build)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        build(self, *args, **kwargs)
        subclass = f"{type(self).__name__} is a layer of its own"
        own = reason(self) if type(self) is layer else subclass
        self.ascend_infer_reason = decision().left_out(OP) or own
        if self.ascend_infer_reason is None:
            self.ascend_infer_reason = _trial(self)
        calls.built(OP, self.ascend_infer_reason)

    return __init__


def _forward(host: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(host)
    def forward(self: Any, positions: torch.Tensor, hidden_states: torch.Tensor) -> Any:
        if self.ascend_infer_reason is not None or positions.dtype != trial.POSITIONS:
            return host(self, positions, hidden_states)
        qkv, _ = self.qkv_proj(hidden_states)
        query, key, value = ops.split_qkv_rmsnorm_rope(
            qkv.contiguous(),
            self.q_norm.weight,
            self.k_norm.weight,
            self.q_norm.variance_epsilon,
            positions,
            self.rotary_emb.cos_sin_cache,
            self.num_heads,
            self.num_kv_heads,
        )
        output, _ = self.o_proj(self.attn(query, key, value))
        return output

    return forward


def _trial(layer: Any) -> str | None:
    weight, cache = layer.q_norm.weight, layer.rotary_emb.cos_sin_cache
    return trial.qk_norm_rope(
        (layer.num_heads, layer.num_kv_heads),
        layer.head_dim,
        cache.shape[-1],
        layer.q_norm.variance_epsilon,
        (weight.dtype, cache.dtype),
        weight.device,
    )


def reason(layer: Any) -> str | None:
    """Why a layer keeps the host's function; None where ours serves."""
    q_norm, k_norm, rotary = layer.q_norm, layer.k_norm, layer.rotary_emb
    if not _is_plain(rotary, "RotaryEmbedding"):
        return f"positions are embedded by {type(rotary).__name__}"
    if not rotary.is_neox_style:
        return "the embedding rotates pairs (2i, 2i + 1)"
    for norm in (q_norm, k_norm):
        if not _is_plain(norm, "RMSNorm"):
            return f"heads are normalised by {type(norm).__name__}"
        if tuple(norm.weight.shape) != (layer.head_dim,):
            return "the norms are over more than a head"
    if q_norm.variance_epsilon != k_norm.variance_epsilon:
        return "the norms of q and k have different epsilons"
    cache = rotary.cos_sin_cache
    if cache.dtype not in (q_norm.weight.dtype, torch.float32):
        return f"the cache of angles is {cache.dtype}"
    heads = {"query": layer.num_heads, "key": layer.num_kv_heads}
    return (
        unserved(rotated_heads, "split_qkv_rmsnorm_rope", heads, layer.head_dim, cache, False)
        or rms_norm_reason(q_norm)
        or rms_norm_reason(k_norm)
        or rotary_reason(rotary)
    )


def _is_plain(layer: Any, key: str) -> bool:
    """Whether a layer is the host's plain one: what the table has, or else vLLM's own class."""
    from vllm.model_executor.custom_op import op_registry_oot

    if key in op_registry_oot:
        return isinstance(layer, op_registry_oot[key])
    return type(layer).__name__ == key
