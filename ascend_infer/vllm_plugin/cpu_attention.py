"""Paged attention in the back end of vLLM's CPU platform: the new tokens' keys and values are
written by our kernel, rows of one token are attended by our kernel, and prompts by PyTorch.

How both use the host's cache, `cpu_cache` has.
"""

from __future__ import annotations

from typing import Any

import torch
from vllm.config import get_current_vllm_config
from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend, CPUAttentionBackendImpl

from ascend_infer.vllm_plugin import calls, trial
from ascend_infer.vllm_plugin.cpu_cache import cache_reason, halves, prefill, slots_in_halves
from ascend_infer.vllm_plugin.decision import decision
from ascend_infer.vllm_plugin.reasons import DTYPES, attention_reason, first_true
from kernels_npu import ops

#: Counted for a step in which a sequence has more than one token.
PROMPTS = "prompts, which PyTorch attends"


class Impl(CPUAttentionBackendImpl):  # type: ignore[misc]
    """Attention of one layer; the host's, counted with the reason, where ours does not cover it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        config = get_current_vllm_config()
        self._block_size, self._dtype = config.cache_config.block_size, config.model_config.dtype
        self._cache_is_known = False
        self._reason = (
            attention_reason(self, self.logits_soft_cap)
            or _engine_reason(config)
            or self._trial(torch.device("cpu"))
        )
        calls.built("attention", self._reason)

    def _trial(self, device: torch.device) -> str | None:
        heads, head_dim = self.num_kv_heads, self.head_size
        block_size, dtype = self._block_size, self._dtype
        return trial.attention(
            (self.num_heads, heads), head_dim, block_size, self.scale, (dtype, dtype), device
        ) or trial.cache_writes(heads, head_dim, block_size, dtype, device)

    def do_kv_cache_update(
        self,
        layer: torch.nn.Module,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        slot_mapping: torch.Tensor,
    ) -> None:
        """See the host: key, value `[tokens, kv_heads, head_dim]`, slots `[tokens]`."""
        if self._reason is None and not self._cache_is_known:
            self._look_at(kv_cache)
        if self._reason is not None:
            super().do_kv_cache_update(layer, key, value, kv_cache, slot_mapping)
            return
        keys, values = halves(kv_cache)
        slots = slots_in_halves(slot_mapping, self._block_size)
        k, v = (tensor[: len(slots)].contiguous() for tensor in (key, value))
        ops.reshape_and_cache(k, v, keys, values, slots)

    def _look_at(self, kv_cache: torch.Tensor) -> None:
        """Leave the layer to the host where its cache is not as expected; nothing is in it yet."""
        self._cache_is_known = True
        self._reason = cache_reason(kv_cache, self._block_size, self._dtype)
        if self._reason is not None:
            decision().refuse("attention", self._reason)

    def forward(
        self,
        layer: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        attn_metadata: Any,
        output: torch.Tensor,
        output_scale: torch.Tensor | None = None,
        output_block_scale: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """See the host: query and output `[tokens, heads, head_dim]`; writes `output`."""
        if attn_metadata is None:  # the host warms up
            return output
        if self._reason is not None:
            calls.attended(self._reason)
            found: torch.Tensor = super().forward(
                layer,
                query,
                key,
                value,
                kv_cache,
                attn_metadata,
                output,
                output_scale,
                output_block_scale,
            )
            return found
        keys, values = halves(kv_cache)
        table = attn_metadata.block_table * 2  # see `halves`
        starts, seq_lens = attn_metadata.query_start_loc, attn_metadata.seq_lens
        tokens = starts.diff()
        single = (tokens == 1).nonzero().flatten()
        if len(single):
            calls.attended(None)
            rows = starts[single].long()
            output[rows] = ops.paged_decode_attention(
                query[rows], keys, values, table[single], seq_lens[single], self.scale
            )
        prompts = (tokens > 1).nonzero().flatten().tolist()
        if prompts:
            calls.attended(PROMPTS)
        for i in prompts:
            rows = slice(int(starts[i]), int(starts[i + 1]))
            output[rows] = prefill(
                query[rows], keys, values, table[i], int(seq_lens[i]), self.scale
            )
        return output


def _engine_reason(config: Any) -> str | None:
    """Why no layer of an engine is ours."""
    return first_true(
        (
            (config.model_config.dtype not in DTYPES, f"query of {config.model_config.dtype}"),
            (config.speculative_config is not None, "speculative decoding"),
            (config.kv_transfer_config is not None, "a cache that another engine reads or writes"),
        )
    )


class Backend(CPUAttentionBackend):  # type: ignore[misc]
    """The host's back end with our implementation."""

    @staticmethod
    def get_impl_cls() -> Any:
        """Ours."""
        return Impl
