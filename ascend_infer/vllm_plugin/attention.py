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

from ascend_infer.vllm_plugin import calls
from ascend_infer.vllm_plugin.decision import decision
from ascend_infer.vllm_plugin.settings import OnRefusal
from ascend_infer.vllm_plugin.stable import StableAddresses
from kernels_npu import ops
from kernels_npu.errors import EnvironmentProblem, KernelSourceError, UnsupportedError

#: What the kernel takes as the dtype of a cache that is not quantised.
_PLAIN = ("auto", "float16", "bfloat16", "half")
_DTYPES = (torch.float16, torch.bfloat16)


class MetadataBuilder(AscendAttentionMetadataBuilder):  # type: ignore[misc]
    """The host's metadata with the device's own lengths and block table beside it."""

    @classmethod
    def get_cudagraph_support(cls, vllm_config: Any, kv_cache_spec: Any) -> AttentionCGSupport:
        """A captured kernel takes one query token per sequence, whatever it is replayed with."""
        return AttentionCGSupport.UNIFORM_SINGLE_TOKEN_DECODE

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
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
        self._reason = static_reason(self, bound.arguments.get("logits_soft_cap"))
        self._served = False
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
        reason = self._reason or step_reason(query, attn_metadata)
        if reason is None:
            reason = self._decode(query, attn_metadata, output)
        calls.attended(reason)
        if reason is None:
            return output
        result: torch.Tensor = super().forward_impl(
            query, key, value, kv_cache, attn_metadata, output
        )
        return result

    def _decode(self, query: torch.Tensor, metadata: Any, output: torch.Tensor) -> str | None:
        """Attend; returns why the kernel cannot, which is known before it is launched."""
        lens, table = metadata.device_seq_lens, metadata.device_block_table
        # Pieces of a graph are padded in the query's rows, not in the metadata's.
        rows = min(query.shape[0], lens.shape[0])
        try:
            found = ops.paged_decode_attention(
                query[:rows].contiguous(),
                self.key_cache,
                self.value_cache,
                table[:rows].contiguous(),
                lens[:rows],
                self.scale,
            )
        except (UnsupportedError, KernelSourceError, EnvironmentProblem) as error:
            settings = decision().settings
            stops = settings is not None and settings.on_refusal is OnRefusal.STOP
            if self._served or stops:
                raise  # what has served before must not change hands in the middle
            self._reason = str(error).splitlines()[0]
            calls.warn("attention", self._reason)
            return self._reason
        self._served = True
        output[:rows] = found.view(output[:rows].shape)
        return None


def static_reason(impl: Any, logits_soft_cap: float | None) -> str | None:
    """Why the host's decode attention serves a layer, whatever the step; None where ours does."""
    unusual = (
        (impl.sliding_window is not None, "sliding window"),
        (impl.alibi_slopes is not None, "ALiBi slopes"),
        (impl.sinks is not None, "attention sinks"),
        (bool(logits_soft_cap), "soft cap of the logits, which the host's prefill leaves out"),
        (impl.kv_sharing_target_layer_name is not None, "a cache shared between layers"),
        (impl.kv_cache_dtype not in _PLAIN, f"KV cache of {impl.kv_cache_dtype}"),
        (getattr(impl, "enable_c8_quant", False), "quantised KV cache"),
        (getattr(impl, "enable_hamming_sparse", False), "sparse attention"),
        (str(impl.attn_type).rpartition(".")[2].lower() != "decoder", "not a decoder's attention"),
    )
    return next((what for applies, what in unusual if applies), None)


def step_reason(query: torch.Tensor, metadata: Any) -> str | None:
    """Why the host's attention serves a step; None where it decodes one token per sequence."""
    if metadata.attn_state != AscendAttentionState.DecodeOnly:
        return f"step of {getattr(metadata.attn_state, 'name', metadata.attn_state)}"
    if not hasattr(metadata, "device_seq_lens"):
        return "metadata of another builder"
    if query.dim() != 3:
        return f"query of {query.dim()} dimensions"
    if query.dtype not in _DTYPES:
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
