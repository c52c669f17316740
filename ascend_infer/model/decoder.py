"""The decoder: every kernel goes through `kernels_npu.ops`, every matrix product through torch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

import torch
import torch.nn.functional as F

from ascend_infer.kv_cache import PagedKvCache
from ascend_infer.model.config import ModelConfig
from ascend_infer.model.rope import cos_sin_cache
from ascend_infer.model.weights import DecoderWeights, LayerWeights
from graphs.batch import DecodeBatch
from kernels_npu import ops


class DecoderModel:
    """Weights, cos/sin cache and forward passes over a paged KV cache on one device."""

    def __init__(self, config: ModelConfig, weights: DecoderWeights, cache: PagedKvCache) -> None:
        self.config = config
        self.weights = weights
        self.cache = cache
        self._scale = config.head_dim**-0.5
        self._cos_sin = cos_sin_cache(
            # No sequence is longer than the whole cache.
            min(config.max_position, cache.num_blocks * cache.block_size),
            config.rotary_dim,
            config.rope_theta,
            config.rope_scaling,
            self.dtype,
        ).to(self.device)

    @property
    def device(self) -> torch.device:
        """Where weights and cache are."""
        return self.weights.embedding.device

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of weights, activations and cache."""
        return self.weights.embedding.dtype

    def fixed_tensors(self) -> dict[str, torch.Tensor]:
        """Tensors whose addresses a captured decode step holds, by a name for messages."""
        weights = {"embedding": self.weights.embedding, "head": self.weights.head}
        return {**weights, **self.cache.by_name()}

    @property
    def num_layers(self) -> int:
        """Decoder layers."""
        return len(self.weights.layers)

    def prefix(self, layers: int) -> Callable[[DecodeBatch], torch.Tensor]:
        """`decode` with the first `layers` layers only, to find the one that goes wrong."""
        return partial(self.decode, layers=layers)

    def decode(self, batch: DecodeBatch, layers: int | None = None) -> torch.Tensor:
        """Logits `[batch, vocab]` of the next token of every row, after all or some layers.

        Can be captured into a graph: all shapes follow from the batch size, nothing is read back.
        Rows of padding give finite numbers that mean nothing.
        """

        def attend(
            layer: int, query: torch.Tensor, _key: torch.Tensor, _value: torch.Tensor
        ) -> torch.Tensor:
            return ops.paged_decode_attention(
                query,
                self.cache.keys[layer],
                self.cache.values[layer],
                batch.block_table,
                batch.seq_lens,
                self._scale,
                self.config.sliding_window,
            )

        hidden = self._layers(batch.token_ids, batch.positions, batch.slot_mapping, attend, layers)
        return F.linear(hidden, self.weights.head)

    def prefill(
        self, token_ids: torch.Tensor, positions: torch.Tensor, slot_mapping: torch.Tensor
    ) -> torch.Tensor:
        """Run one whole prompt from position 0 and fill its cache; logits `[1, vocab]` of its end.

        All three are `[tokens]` on the device: int64, int64 and int32. Eager only.
        """
        mask = self._window_mask(len(token_ids))

        def attend(
            _layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
        ) -> torch.Tensor:
            return self._causal_attention(query, key, value, mask)

        hidden = self._layers(token_ids, positions, slot_mapping, attend)
        return F.linear(hidden[-1:], self.weights.head)

    def _layers(
        self,
        token_ids: torch.Tensor,
        positions: torch.Tensor,
        slot_mapping: torch.Tensor,
        attend: _Attend,
        layers: int | None = None,
    ) -> torch.Tensor:
        """The first `layers` decoder layers (None: all) and the final norm: `[tokens, hidden]`.

        `residual` is updated in place; each norm adds the previous block's output to it first.
        """
        eps = self.config.rms_norm_eps
        residual = F.embedding(token_ids, self.weights.embedding)
        hidden = residual
        for index, layer in enumerate(self.weights.layers[:layers]):
            if index == 0:
                hidden = ops.rms_norm(residual, layer.input_norm, eps)
            else:
                hidden = ops.add_rms_norm(hidden, residual, layer.input_norm, eps)
            hidden = self._attention(index, layer, hidden, positions, slot_mapping, attend)
            hidden = ops.add_rms_norm(hidden, residual, layer.post_attention_norm, eps)
            hidden = F.linear(ops.silu_and_mul(F.linear(hidden, layer.gate_up)), layer.down)
        if layers == 0:
            return ops.rms_norm(residual, self.weights.final_norm, eps)
        return ops.add_rms_norm(hidden, residual, self.weights.final_norm, eps)

    def _attention(
        self,
        index: int,
        layer: LayerWeights,
        hidden: torch.Tensor,
        positions: torch.Tensor,
        slot_mapping: torch.Tensor,
        attend: _Attend,
    ) -> torch.Tensor:
        config = self.config
        fused = F.linear(hidden, layer.qkv, layer.qkv_bias)
        parts = torch.split(fused, [config.q_size, config.kv_size, config.kv_size], dim=-1)
        if fused.device.type == "npu":
            # Columns of a fused row are apart in memory; the NPU's kernels take packed rows.
            parts = tuple(part.contiguous() for part in parts)
        query, key, value = (part.view(len(part), -1, config.head_dim) for part in parts)
        ops.rotary_embedding(positions, query, key, self._cos_sin, False)
        ops.reshape_and_cache(
            key, value, self.cache.keys[index], self.cache.values[index], slot_mapping
        )
        attended = attend(index, query, key, value)
        return F.linear(attended.reshape(len(attended), -1), layer.output, layer.output_bias)

    def _window_mask(self, tokens: int) -> torch.Tensor | None:
        """Which keys each query sees, `[tokens, tokens]` bool; None when causality says it all."""
        window = self.config.sliding_window
        if not 0 < window < tokens:
            return None
        position = torch.arange(tokens)
        distance = position[:, None] - position[None, :]
        return ((distance >= 0) & (distance < window)).to(self.device)

    def _causal_attention(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        mask: torch.Tensor | None,
    ) -> torch.Tensor:
        """Attention of a prompt to itself; `query` and result `[tokens, q_heads, head_dim]`."""
        group = self.config.num_q_heads // self.config.num_kv_heads

        def heads_first(tensor: torch.Tensor, repeat: int) -> torch.Tensor:
            return tensor.repeat_interleave(repeat, dim=1).transpose(0, 1).unsqueeze(0)

        attended = F.scaled_dot_product_attention(
            heads_first(query, 1),
            heads_first(key, group),
            heads_first(value, group),
            attn_mask=mask,
            is_causal=mask is None,
            scale=self._scale,
        )
        return attended.squeeze(0).transpose(0, 1).contiguous()


class _Attend(Protocol):
    """Attention of one layer for `query`, after the new keys and values are in the cache."""

    def __call__(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, /
    ) -> torch.Tensor: ...
