"""Paged decode attention in the host's back end; everything else is the host's.

The kernel reads the lengths of the sequences and the block table on the device, from the buffers
that the model runner fills before each step. So a captured graph needs no update of host
parameters, and the lengths of the host's own metadata, which are those of one step, are not used.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
import vllm_ascend.ops  # noqa: F401 - before attention_v1, which imports in a circle otherwise
from vllm.v1.attention.backend import AttentionCGSupport
from vllm_ascend.attention.attention_v1 import (
    AscendAttentionBackend,
    AscendAttentionBackendImpl,
    AscendAttentionMetadataBuilder,
    AscendAttentionState,
)

from ascend_infer.vllm_plugin import calls, trial
from ascend_infer.vllm_plugin.decision import decision
from ascend_infer.vllm_plugin.reasons import DTYPES, attention_reason, unserved
from ascend_infer.vllm_plugin.stable import StableAddresses
from kernels_npu import ops
from kernels_npu.requirements import addressable


class MetadataBuilder(AscendAttentionMetadataBuilder):  # type: ignore[misc]
    """The host's metadata with the device's own lengths and block table beside it."""

    @classmethod
    def get_cudagraph_support(cls, vllm_config: Any, kv_cache_spec: Any) -> AttentionCGSupport:
        """A captured kernel takes one query token per sequence, whatever it is replayed with."""
        return AttentionCGSupport.UNIFORM_SINGLE_TOKEN_DECODE

    def __init__(
        self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any, device: torch.device
    ) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)
        layers = vllm_config.compilation_config.static_forward_context
        for name in layer_names:
            impl = getattr(layers.get(name), "impl", None)
            if isinstance(impl, Impl):
                impl.prepare(kv_cache_spec, vllm_config.model_config.dtype, device)
            else:  # the host has changed the class of the layer, as for quantised caches
                calls.warn("attention", f"{type(impl).__name__} stands in for ours")
        mode = getattr(self.vllm_config.compilation_config, "cudagraph_mode", None)
        self._stable = StableAddresses() if "FULL" in getattr(mode, "name", "") else None

    def build(
        self, common_prefix_len: int, common_attn_metadata: Any, fast_build: bool = False
    ) -> Any:
        """See the host; adds `device_seq_lens` `[rows]` and `device_block_table` `[rows, blocks]`,
        int32, whose addresses do not change from step to step.

        Raises:
            EnvironmentProblem: AI-VLLM-005 where they do, and decode attention is captured.
        """
        metadata = super().build(common_prefix_len, common_attn_metadata, fast_build)
        seq_lens = common_attn_metadata.seq_lens
        block_table = common_attn_metadata.block_table_tensor
        if self._stable is not None and metadata.attn_state == AscendAttentionState.DecodeOnly:
            self._stable.check(seq_lens=seq_lens, block_table=block_table)
        metadata.device_seq_lens, metadata.device_block_table = seq_lens, block_table
        return metadata


class Impl(AscendAttentionBackendImpl):  # type: ignore[misc]
    """Decode attention by our kernel where it can, else the host's, counted with the reason."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        bound = inspect.signature(AscendAttentionBackendImpl.__init__).bind(self, *args, **kwargs)
        # Which vllm-ascend 0.18 takes and does not keep.
        self.kv_sharing_target_layer_name = bound.arguments["kv_sharing_target_layer_name"]
        self._reason = attention_reason(self, bound.arguments.get("logits_soft_cap"))
        self._block_size = 0
        if self._reason is not None:
            calls.built("attention", self._reason)

    def prepare(self, kv_cache_spec: Any, dtype: torch.dtype, device: torch.device) -> None:
        """Run the kernel once for the cache that the layer will have, before anything is captured.

        Raises:
            EnvironmentProblem: AI-VLLM-002 for a kernel that fails, where `on_refusal` is "stop".
        """
        if self._reason is not None or self._block_size:
            return
        # A cache of larger blocks than the host's attention takes is cut into such blocks.
        self._block_size = min(
            kv_cache_spec.block_size, Backend.get_supported_kernel_block_sizes()[0]
        )
        self._reason = trial.attention(
            (self.num_heads, self.num_kv_heads),
            self.head_size,
            self._block_size,
            self.scale,
            (dtype, kv_cache_spec.dtype),
            device,
        )
        calls.built("attention", self._reason)

    def forward_impl(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: Any,
        attn_metadata: Any,
        output: torch.Tensor,
    ) -> torch.Tensor:
        """See the host. The new keys and values are in the cache already."""
        reason = self._reason or step_reason(query, attn_metadata) or self._cache_reason()
        if reason is None:
            self._decode(query, attn_metadata, output)
            result = output
        else:
            result = super().forward_impl(query, key, value, kv_cache, attn_metadata, output)
        calls.attended(reason)
        return result

    def _cache_reason(self) -> str | None:
        """Why the kernel does not serve the cache that the host has made."""
        found, tried = self.key_cache.shape[1], self._block_size
        reason = (
            f"cache blocks of {found}, where {tried or 'none'} were tried"
            if found != tried
            else unserved(addressable, "attention", key_cache=self.key_cache)
        )
        if reason is not None:
            decision().refuse("attention", reason)
        return reason

    def _decode(self, query: torch.Tensor, metadata: Any, output: torch.Tensor) -> None:
        lens, table = metadata.device_seq_lens, metadata.device_block_table
        # Pieces of a graph are padded in the query's rows, not in the metadata's.
        rows = min(query.shape[0], lens.shape[0])
        found = ops.paged_decode_attention(
            query[:rows].contiguous(),
            self.key_cache,
            self.value_cache,
            table[:rows].contiguous(),
            lens[:rows],
            self.scale,
        )
        output[:rows] = found.view(output[:rows].shape)


def step_reason(query: torch.Tensor, metadata: Any) -> str | None:
    """Why the host's attention serves a step; None where it decodes one token per sequence."""
    if metadata.attn_state != AscendAttentionState.DecodeOnly:
        return f"step of {getattr(metadata.attn_state, 'name', metadata.attn_state)}"
    if not hasattr(metadata, "device_seq_lens"):
        return "metadata of another builder"
    if query.dim() != 3:
        return f"query of {query.dim()} dimensions"
    if query.dtype not in DTYPES:
        return f"query of {query.dtype}"
    return None


class Backend(AscendAttentionBackend):  # type: ignore[misc]
    """The host's back end with our builder and implementation where it has its plain ones."""

    @staticmethod
    def get_impl_cls() -> Any:
        """Ours, unless the host chooses one for context parallelism."""
        host = AscendAttentionBackend.get_impl_cls()
        return Impl if host is AscendAttentionBackendImpl else host

    @staticmethod
    def get_builder_cls() -> Any:
        """Ours, unless the host chooses one for context parallelism."""
        host = AscendAttentionBackend.get_builder_cls()
        return MetadataBuilder if host is AscendAttentionMetadataBuilder else host
