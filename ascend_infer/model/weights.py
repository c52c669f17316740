"""Where a model's weights come from, and their fused form on the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from ascend_infer.model.config import ModelConfig
from kernels_npu.errors import UsageError


class WeightSource(Protocol):
    """Tensors by their Hugging Face names (`model.layers.0.self_attn.q_proj.weight`)."""

    @property
    def path(self) -> Path:
        """The file or directory the weights are read from."""

    @property
    def config(self) -> ModelConfig:
        """The model's dimensions."""

    def names(self) -> frozenset[str]:
        """All tensors that `tensor` can give."""

    def tensor(self, name: str) -> torch.Tensor:
        """One tensor on the host, read (and dequantised to float32) when called."""


@dataclass(frozen=True, kw_only=True)
class LayerWeights:
    """One decoder layer: linear weights `[out, in]`, rows fused as Q, K, V and as gate, up."""

    input_norm: torch.Tensor
    qkv: torch.Tensor
    qkv_bias: torch.Tensor | None
    output: torch.Tensor
    output_bias: torch.Tensor | None
    post_attention_norm: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor


@dataclass(frozen=True, kw_only=True)
class DecoderWeights:
    """All weights on one device in one dtype; `head` is `embedding` itself when tied."""

    embedding: torch.Tensor
    layers: tuple[LayerWeights, ...]
    final_norm: torch.Tensor
    head: torch.Tensor

    @property
    def bytes(self) -> int:
        """Size of all weights on the device, a tied head counted once."""
        tensors = {self.embedding, self.final_norm, self.head}
        for layer in self.layers:
            tensors.update(t for t in vars(layer).values() if t is not None)
        return sum(t.numel() * t.element_size() for t in tensors)


def expected_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Every tensor that `config` needs, by Hugging Face name."""
    hidden, inter = config.hidden_size, config.intermediate_size
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (config.vocab_size, hidden),
        "model.norm.weight": (hidden,),
    }
    if not config.tied_head:
        shapes["lm_head.weight"] = (config.vocab_size, hidden)
    for index in range(config.num_layers):
        prefix = f"model.layers.{index}."
        attention, mlp = prefix + "self_attn.", prefix + "mlp."
        shapes[prefix + "input_layernorm.weight"] = (hidden,)
        shapes[prefix + "post_attention_layernorm.weight"] = (hidden,)
        for name, rows in (("q", config.q_size), ("k", config.kv_size), ("v", config.kv_size)):
            shapes[f"{attention}{name}_proj.weight"] = (rows, hidden)
            if config.qkv_bias:
                shapes[f"{attention}{name}_proj.bias"] = (rows,)
        shapes[attention + "o_proj.weight"] = (hidden, config.q_size)
        if config.output_bias:
            shapes[attention + "o_proj.bias"] = (hidden,)
        shapes[mlp + "gate_proj.weight"] = (inter, hidden)
        shapes[mlp + "up_proj.weight"] = (inter, hidden)
        shapes[mlp + "down_proj.weight"] = (hidden, inter)
    return shapes


def require_layers(source: WeightSource) -> None:
    """Refuse weights without the last layer, AI-MODEL-012.

    Called before room is made for as many layers as the configuration says: the number may
    be absurd.
    """
    last = f"model.layers.{source.config.num_layers - 1}.input_layernorm.weight"
    if last not in source.names():
        raise _lacks(source, [last])


def refuse_more_layers(source: WeightSource) -> None:
    """Refuse weights with more layers than the configuration names, AI-MODEL-016.

    A model cut short answers in fluent nonsense.
    """
    more = f"model.layers.{source.config.num_layers}.input_layernorm.weight"
    if more in source.names():
        raise UsageError(
            "AI-MODEL-016",
            f"{source.path} holds more layers than "
            f"the {source.config.num_layers} of its configuration",
            fix="use the configuration that belongs to these weights",
        )


def load_weights(
    source: WeightSource, *, device: torch.device, dtype: torch.dtype
) -> DecoderWeights:
    """Read, check, convert and fuse all weights, one layer at a time.

    Raises:
        UsageError: AI-MODEL-012 for a missing tensor, AI-MODEL-013 for a wrong shape.
    """
    config = source.config
    shapes = expected_shapes(config)
    _require_tensors(source, shapes)

    def read(*names: str) -> torch.Tensor:
        parts = [_checked(source, name, shapes[name]) for name in names]
        # Rounded before fusing: half the memory, and one conversion per weight in any order.
        parts = [part.to(dtype) for part in parts]
        return (parts[0] if len(parts) == 1 else torch.cat(parts)).contiguous().to(device)

    def layer(index: int) -> LayerWeights:
        prefix = f"model.layers.{index}."
        attention, mlp = prefix + "self_attn.", prefix + "mlp."
        qkv = [f"{attention}{name}_proj" for name in "qkv"]
        return LayerWeights(
            input_norm=read(prefix + "input_layernorm.weight"),
            qkv=read(*(name + ".weight" for name in qkv)),
            qkv_bias=read(*(name + ".bias" for name in qkv)) if config.qkv_bias else None,
            output=read(attention + "o_proj.weight"),
            output_bias=read(attention + "o_proj.bias") if config.output_bias else None,
            post_attention_norm=read(prefix + "post_attention_layernorm.weight"),
            gate_up=read(mlp + "gate_proj.weight", mlp + "up_proj.weight"),
            down=read(mlp + "down_proj.weight"),
        )

    embedding = read("model.embed_tokens.weight")
    return DecoderWeights(
        embedding=embedding,
        layers=tuple(layer(index) for index in range(config.num_layers)),
        final_norm=read("model.norm.weight"),
        head=embedding if config.tied_head else read("lm_head.weight"),
    )


def _require_tensors(source: WeightSource, shapes: dict[str, tuple[int, ...]]) -> None:
    missing = sorted(set(shapes) - source.names())
    if missing:
        raise _lacks(source, missing)


def _lacks(source: WeightSource, missing: Sequence[str]) -> UsageError:
    return UsageError(
        "AI-MODEL-012",
        f"{source.path} lacks {len(missing)} tensors that its configuration names, the first is "
        f"{missing[0]!r}",
        rule="the configuration names the tensors that the weights must hold",
        fix="download all weight files of the model, or correct the configuration",
    )


def _checked(source: WeightSource, name: str, shape: tuple[int, ...]) -> torch.Tensor:
    tensor = source.tensor(name)
    if tuple(tensor.shape) != shape:
        raise UsageError(
            "AI-MODEL-013",
            f"{source.path}: {name} has shape {tuple(tensor.shape)}, "
            f"the configuration needs {shape}",
            fix="use the configuration that belongs to these weights",
        )
    if not tensor.is_floating_point():
        raise UsageError(
            "AI-MODEL-013",
            f"{source.path}: {name} has dtype {tensor.dtype}, expected a floating-point dtype",
            fix="use a checkpoint that is not quantised, or a GGUF file",
        )
    return tensor
