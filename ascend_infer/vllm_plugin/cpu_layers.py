"""Layers of vLLM's CPU platform in the shape of an out-of-tree platform's, which `layers` extends.

On this platform vLLM calls `forward_cpu`, and only where custom operators are on. Ours are asked
for by name, so that they are on unless `custom_ops` names them with a minus.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

import torch

#: By operator: where vLLM's class is, and its name, which is also its key in vLLM's table.
CLASSES = {
    "rms_norm": ("vllm.model_executor.layers.layernorm", "RMSNorm"),
    "rotary_embedding": ("vllm.model_executor.layers.rotary_embedding", "RotaryEmbedding"),
}


def fill_table(names: Iterable[str]) -> None:
    """Put adapted classes of the host into vLLM's table of operators where it has none."""
    from vllm.model_executor.custom_op import op_registry_oot

    adapt = {"rms_norm": _rms_norm, "rotary_embedding": _rotary}
    for name in names:
        module, key = CLASSES[name]
        if key not in op_registry_oot:
            op_registry_oot[key] = adapt[name](_on(getattr(importlib.import_module(module), key)))


def _on(host: Any) -> Any:
    class OnUnlessNamed(host):  # type: ignore[misc]
        @classmethod
        def enabled(cls) -> bool:
            from vllm.config import get_cached_compilation_config

            return f"-{cls.name}" not in get_cached_compilation_config().custom_ops

    return OnUnlessNamed


def _rms_norm(host: Any) -> Any:
    class CpuRMSNorm(host):  # type: ignore[misc]
        #: Which vllm-ascend does under sequence parallelism.
        chunks_residual = False

        def forward_cpu(self, x: torch.Tensor, residual: torch.Tensor | None = None) -> Any:
            return self.forward_oot(x, residual)

        def forward_oot(self, x: torch.Tensor, residual: torch.Tensor | None = None) -> Any:
            return super().forward_cpu(x, residual)

    return CpuRMSNorm


def _rotary(host: Any) -> Any:
    class CpuRotaryEmbedding(host):  # type: ignore[misc]
        def forward_cpu(
            self, positions: torch.Tensor, query: torch.Tensor, key: torch.Tensor | None = None
        ) -> Any:
            return self.forward_oot(positions, query, key)

        def forward_oot(
            self,
            positions: torch.Tensor,
            query: torch.Tensor,
            key: torch.Tensor | None,
            *_never_given: Any,
        ) -> Any:
            return super().forward_cpu(positions, query, key)

    return CpuRotaryEmbedding


def qwen3_layers() -> dict[Any, Any]:
    """The classes with queries and keys that are normalised, and their pinned `forward`."""
    from vllm.model_executor.models.qwen3 import Qwen3Attention
    from vllm.model_executor.models.qwen3_moe import Qwen3MoeAttention

    return {layer: layer.forward for layer in (Qwen3Attention, Qwen3MoeAttention)}
