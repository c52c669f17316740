"""The shape of a decoder model, read from a Hugging Face `config.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ascend_infer.model.fields import Fields
from ascend_infer.model.rope import RopeScaling
from kernels_npu.errors import UnsupportedError, UsageError

#: `model_type` values whose arithmetic this decoder reproduces exactly.
ARCHITECTURES = ("llama", "mistral", "qwen2")


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Dimensions and options of one decoder.

    sliding_window: number of most recent keys a query sees, itself included; 0 is all of them.
    rotary_dim: how many leading elements of a head RoPE rotates (half-split pairs, "NeoX").
    qkv_bias / output_bias: bias of the Q/K/V projections and of the attention output projection.
    """

    architecture: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_q_heads: int
    num_kv_heads: int
    head_dim: int
    rotary_dim: int
    max_position: int
    rope_theta: float
    rms_norm_eps: float
    rope_scaling: RopeScaling = field(default_factory=RopeScaling)
    qkv_bias: bool = False
    output_bias: bool = False
    tied_head: bool = False
    sliding_window: int = 0
    eos_token_ids: tuple[int, ...] = ()
    bos_token_id: int | None = None

    def __post_init__(self) -> None:
        def require(holds: bool, what: str, rule: str) -> None:
            if not holds:
                raise UsageError("AI-MODEL-002", what, rule=rule, fix="correct the configuration")

        require(
            self.num_q_heads % self.num_kv_heads == 0,
            f"{self.num_q_heads} query heads, {self.num_kv_heads} key/value heads",
            "the query heads divide evenly among the key/value heads",
        )
        require(
            0 < self.rotary_dim <= self.head_dim and self.rotary_dim % 2 == 0,
            f"rotary dimension {self.rotary_dim} of head dimension {self.head_dim}",
            "RoPE rotates pairs inside a head",
        )
        require(
            self.rms_norm_eps < 1,
            f"rms_norm_eps is {self.rms_norm_eps}",
            "the epsilon keeps a division defined; it is far below 1",
        )
        factors = self.rope_scaling.factors
        require(
            self.rope_scaling.kind != "factors" or len(factors) == self.rotary_dim // 2,
            f"{len(factors)} RoPE factors for {self.rotary_dim // 2} frequencies",
            "one factor per rotated pair",
        )

    @property
    def q_size(self) -> int:
        """Elements of all query heads of a token."""
        return self.num_q_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        """Elements of all key (or value) heads of a token."""
        return self.num_kv_heads * self.head_dim

    @classmethod
    def from_hf(cls, values: Mapping[str, Any], origin: str = "config.json") -> ModelConfig:
        """Read a parsed `config.json`.

        Raises:
            UsageError: AI-MODEL-001 (missing key), AI-MODEL-002 (absurd value).
            UnsupportedError: AI-MODEL-003 (architecture), AI-MODEL-004 (feature).
        """
        fields = Fields(values=values, origin=origin)
        architecture = _architecture(fields)
        _refuse_unsupported(fields)
        hidden_size = fields.positive_int("hidden_size")
        num_q_heads = fields.positive_int("num_attention_heads")
        vocab_size = fields.positive_int("vocab_size")
        max_position = fields.positive_int("max_position_embeddings")
        rope = fields.mapping("rope_parameters") or {}
        rope_fields = Fields(values={**values, **rope}, origin=origin)
        head_dim = _head_dim(fields, hidden_size, num_q_heads)
        rotated_part = rope_fields.positive_float("partial_rotary_factor", 1.0)
        if rotated_part > 1:
            raise rope_fields.absurd("partial_rotary_factor", "a share of a head, at most 1")
        rotary_dim = int(head_dim * rotated_part)
        attention_bias = fields.boolean("attention_bias", False)
        bos = fields.token_ids("bos_token_id", vocab_size)
        return cls(
            architecture=architecture,
            vocab_size=vocab_size,
            hidden_size=hidden_size,
            intermediate_size=fields.positive_int("intermediate_size"),
            num_layers=fields.positive_int("num_hidden_layers"),
            num_q_heads=num_q_heads,
            num_kv_heads=fields.positive_int("num_key_value_heads", num_q_heads),
            head_dim=head_dim,
            rotary_dim=rotary_dim,
            max_position=max_position,
            rope_theta=rope_fields.positive_float("rope_theta", 10000.0),
            rms_norm_eps=fields.positive_float("rms_norm_eps"),
            rope_scaling=RopeScaling.from_hf(rope or fields.mapping("rope_scaling"), origin),
            qkv_bias=attention_bias or architecture == "qwen2",
            output_bias=attention_bias and architecture == "llama",
            tied_head=fields.boolean("tie_word_embeddings", False),
            sliding_window=_sliding_window(fields, architecture, max_position),
            eos_token_ids=fields.token_ids("eos_token_id", vocab_size),
            bos_token_id=bos[0] if bos else None,
        )


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in `path`; AI-MODEL-007 when there is none."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(
            "AI-MODEL-007", f"cannot read {path}: {error}", fix="download the file again"
        ) from error
    if not isinstance(values, dict):
        raise UsageError(
            "AI-MODEL-007",
            f"{path} holds a JSON {type(values).__name__}, expected an object",
            fix="download the file again",
        )
    return values


def _architecture(fields: Fields) -> str:
    architecture = fields.get("model_type")
    if architecture is None:
        raise fields.missing("model_type")
    if architecture not in ARCHITECTURES:
        raise UnsupportedError(
            "AI-MODEL-003",
            f"{fields.origin}: model_type {architecture!r}",
            rule=f"this decoder computes exactly: {', '.join(ARCHITECTURES)}",
            fix="use a model of one of these kinds",
        )
    return str(architecture)


def _refuse_unsupported(fields: Fields) -> None:
    """Options that change the arithmetic and that this decoder does not compute."""
    checks = (
        ("hidden_act", fields.get("hidden_act") in (None, "silu", "swish"), "SwiGLU uses silu"),
        ("mlp_bias", not fields.boolean("mlp_bias", False), "the MLP has no bias"),
        (
            "quantization_config",
            fields.get("quantization_config") is None,
            "weights are float16, bfloat16 or float32 (or a GGUF file)",
        ),
    )
    for key, supported, rule in checks:
        if not supported:
            raise UnsupportedError(
                "AI-MODEL-004",
                f"{fields.origin}: {key} is {fields.get(key)!r}",
                rule=rule,
                fix="use a checkpoint without this option",
            )


def _head_dim(fields: Fields, hidden_size: int, num_q_heads: int) -> int:
    if fields.get("head_dim") is not None:
        return fields.positive_int("head_dim")
    if hidden_size % num_q_heads:
        raise UsageError(
            "AI-MODEL-002",
            f"{fields.origin}: hidden_size {hidden_size} is not a multiple of "
            f"num_attention_heads {num_q_heads}, and head_dim is not given",
            fix="add head_dim to the configuration",
        )
    return hidden_size // num_q_heads


def _sliding_window(fields: Fields, architecture: str, max_position: int) -> int:
    if architecture == "llama" or fields.get("sliding_window") is None:
        return 0
    if architecture == "mistral":
        window = fields.positive_int("sliding_window")
        return 0 if window >= max_position else window
    if not fields.boolean("use_sliding_window", False):
        return 0
    # Qwen2 switches the window on for a part of the layers only.
    raise UnsupportedError(
        "AI-MODEL-004",
        f"{fields.origin}: use_sliding_window is true",
        rule="a sliding window of the Qwen2 kind differs between layers",
        fix="use a checkpoint with use_sliding_window false (all published Qwen2.5 chat models)",
    )
