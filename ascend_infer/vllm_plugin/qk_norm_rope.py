"""Qwen3's attention with split, norms and rotation as one operator of ours.

The host has already put a function of its own in the place of vLLM's `forward`; ours stands before
that one and leaves to it every layer that the operator does not cover. So it holds in eager mode
and in each way of compiling, where a pattern over a graph would need one form per compiler.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch

from ascend_infer.vllm_plugin import calls, trial
from ascend_infer.vllm_plugin.layers import rms_norm_reason, rotary_reason
from kernels_npu import ops
from kernels_npu.errors import UnsupportedError
from kernels_npu.requirements import rotated_heads

OP = "qk_norm_rope"
_HOST_MODULE = "vllm_ascend.patch.worker.patch_qwen3vl"
_HOST_FORWARD = "forward_with_split_qkv_rmsnorm_mrope"
#: The layers that run the host's function, by module.
_LAYERS = {
    "vllm.model_executor.models.qwen3": "Qwen3Attention",
    "vllm.model_executor.models.qwen3_moe": "Qwen3MoeAttention",
}


def replace() -> None:
    """Put ours before the host's function in Qwen3's layers, once."""
    known = getattr(sys.modules.get(_HOST_MODULE), _HOST_FORWARD, None)
    for module, name in _LAYERS.items():
        layer = getattr(sys.modules.get(module), name, None)
        if layer is None or hasattr(layer, "ascend_infer_reason"):
            continue
        if known is None or layer.forward is not known:
            calls.warn(OP, f"{name}.forward is not the host's {_HOST_FORWARD}")
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
        self.ascend_infer_reason = reason(self) if type(self) is layer else subclass
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
    from vllm.model_executor.custom_op import op_registry_oot

    q_norm, k_norm, rotary = layer.q_norm, layer.k_norm, layer.rotary_emb
    if not isinstance(rotary, op_registry_oot["RotaryEmbedding"]):
        return f"positions are embedded by {type(rotary).__name__}"
    if not rotary.is_neox_style:
        return "the embedding rotates pairs (2i, 2i + 1)"
    for norm in (q_norm, k_norm):
        if not isinstance(norm, op_registry_oot["RMSNorm"]):
            return f"heads are normalised by {type(norm).__name__}"
        if tuple(norm.weight.shape) != (layer.head_dim,):
            return "the norms are over more than a head"
    if q_norm.variance_epsilon != k_norm.variance_epsilon:
        return "the norms of q and k have different epsilons"
    cache = rotary.cos_sin_cache
    if cache.dtype not in (q_norm.weight.dtype, torch.float32):
        return f"the cache of angles is {cache.dtype}"
    heads = {"query": layer.num_heads, "key": layer.num_kv_heads}
    try:
        rotated_heads("split_qkv_rmsnorm_rope", heads, layer.head_dim, cache, False)
    except UnsupportedError as error:
        return str(error.what)
    return rms_norm_reason(q_norm) or rms_norm_reason(k_norm) or rotary_reason(rotary)
