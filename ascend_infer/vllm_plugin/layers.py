"""RMSNorm and rotary embedding as subclasses of the host's classes, in the host's own table.

Weights, biases and caches stay the host's. Whether a layer is ours is decided when it is built, so
that the traced code has no branch that depends on the kernel.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from ascend_infer.vllm_plugin import calls, torch_operators, trial
from ascend_infer.vllm_plugin.decision import decision
from ascend_infer.vllm_plugin.reasons import DTYPES, unserved
from kernels_npu import ops
from kernels_npu.requirements import hidden_size, rotated_heads


def replace(names: Iterable[str]) -> None:
    """Put our subclasses into vLLM's table of operators, once."""
    from vllm.model_executor.custom_op import op_registry_oot

    makers = {"rms_norm": ("RMSNorm", _rms_norm), "rotary_embedding": ("RotaryEmbedding", _rotary)}
    for name in names:
        key, make = makers[name]
        host = op_registry_oot[key]
        if not hasattr(host, "ascend_infer_reason"):
            op_registry_oot[key] = make(host)


def _rms_norm(host: Any) -> Any:
    chunks_residual = getattr(host, "chunks_residual", True)

    class AscendInferRMSNorm(host):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.ascend_infer_reason = (
                _switched_off(self, "rms_norm")
                or rms_norm_reason(self)
                or trial.rms_norm(
                    self.weight.shape[0],
                    self.variance_epsilon,
                    self.weight.dtype,
                    self.weight.device,
                )
            )
            calls.built("rms_norm", self.ascend_infer_reason)

        def forward_oot(self, x: torch.Tensor, residual: torch.Tensor | None = None) -> Any:
            if self.ascend_infer_reason is not None:
                return super().forward_oot(x, residual)
            weight, eps = self.weight, self.variance_epsilon
            rows = x.reshape(-1, x.shape[-1]).contiguous()
            if residual is None:
                return ops.rms_norm(rows, weight, eps).view(x.shape)
            if chunks_residual:
                residual = torch.ops.vllm.maybe_chunk_residual(x, residual)
            added = residual.reshape(rows.shape).contiguous()
            out, total = ops.fused_add_rms_norm(rows, added, weight, eps)
            return out.view(x.shape), total.view(residual.shape)

    AscendInferRMSNorm.ascend_infer_reason = None
    return AscendInferRMSNorm


def _switched_off(layer: Any, op: str) -> str | None:
    """Why this engine will not call `op`, whatever the layer; `custom_ops` may leave a layer's text
    to the compiler."""
    if not getattr(layer, "enabled", lambda: True)():
        return "custom_ops switches it off"
    return decision().left_out(op)


def rms_norm_reason(layer: Any) -> str | None:
    """Why a layer keeps the host's RMSNorm; None where ours serves."""
    if getattr(layer, "bias", None) is not None:
        return "the norm has a bias"
    if getattr(layer, "variance_size_override", None) is not None:
        return "the variance is over a part of the row"
    weight = getattr(layer, "weight", None)
    if weight is None or not getattr(layer, "has_weight", True):
        return "the norm has no weight"
    if weight.dtype not in DTYPES:
        return f"the weight is {weight.dtype}"
    return unserved(hidden_size, "rms_norm", weight.shape[0])


def _rotary(host: Any) -> Any:
    class AscendInferRotaryEmbedding(host):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.ascend_infer_reason = _switched_off(self, "rotary_embedding") or rotary_reason(
                self
            )
            if self.ascend_infer_reason is None:
                self.ascend_infer_heads = _model_heads()
                cache = self.cos_sin_cache
                self.ascend_infer_reason = trial.rotary_embedding(
                    self.ascend_infer_heads,
                    self.head_size,
                    not self.is_neox_style,
                    self.rotary_dim,
                    (self.dtype, cache.dtype),
                    cache.device,
                )
            calls.built("rotary_embedding", self.ascend_infer_reason)

        def forward_oot(
            self,
            positions: torch.Tensor,
            query: torch.Tensor,
            key: torch.Tensor | None,
            offsets: torch.Tensor | None = None,
            is_neox_style_override: bool | None = None,
        ) -> Any:
            neox = self.is_neox_style if is_neox_style_override is None else is_neox_style_override
            usual = neox == self.is_neox_style and offsets is None
            ours = usual and self.ascend_infer_reason is None
            if key is None or not (ours and _as_tried(self, positions, query, key)):
                return super().forward_oot(positions, query, key, offsets, is_neox_style_override)
            return torch_operators.rotary_embedding(
                positions, query, key, self.cos_sin_cache, self.head_size, not neox
            )

    AscendInferRotaryEmbedding.ascend_infer_reason = None
    return AscendInferRotaryEmbedding


def _model_heads() -> tuple[int, int]:
    """Heads of query and key on this rank; a layer does not know how many it will rotate."""
    from vllm.config import get_current_vllm_config

    config = get_current_vllm_config()
    model, parallel = config.model_config, config.parallel_config
    return model.get_num_attention_heads(parallel), model.get_num_kv_heads(parallel)


def _as_tried(layer: Any, positions: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> bool:
    """Whether a call is of the kind that the trial was, so that no kernel is built in it."""
    heads = tuple(t.shape[positions.dim() :].numel() // layer.head_size for t in (query, key))
    return (
        heads == layer.ascend_infer_heads
        and query.dtype == key.dtype == layer.dtype
        and positions.dtype == trial.POSITIONS
    )


def rotary_reason(layer: Any) -> str | None:
    """Why a layer keeps the host's rotary embedding; None where ours serves."""
    if layer.dtype not in DTYPES:
        return f"the heads are {layer.dtype}"
    if getattr(layer, "use_mtp", False):
        return "drafts of multi-token prediction gather their positions"
    # How many heads it will rotate a layer does not know; the trial and each call look at them.
    return unserved(
        rotated_heads,
        "rotary_embedding",
        {},
        layer.head_size,
        layer.cos_sin_cache,
        not layer.is_neox_style,
    )
