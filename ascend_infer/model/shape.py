"""The shape of a model for estimates: from any `config.json`, or from a model that can be run.

Estimates need dimensions only, so architectures are welcome here whose arithmetic the decoder does
not compute, as long as their layers are alike and keep keys and values per head.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ascend_infer.estimates.models.catalogue import public_model
from ascend_infer.model import catalogue
from ascend_infer.model.config import ModelConfig, read_json
from ascend_infer.model.fields import Fields
from graphs.planning.shape import ModelShape
from kernels_npu.errors import UnsupportedError

#: Keys by which configurations call the same thing.
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
_ALIKE_LAYERS = ("full_attention", "sliding_attention", "chunked_attention")


def read_shape(name: str, **options: Any) -> ModelShape:
    """The shape of the model called `name`: a known one, a `config.json`, or what
    `catalogue.resolve` takes.

    Args:
        options: fields of `ModelShape` that no configuration states, such as `weight_bytes`.

    Raises:
        AscendInferError: AI-MODEL-001 .. 007 for a name or a configuration that is not usable.
    """
    if (known := public_model(name)) is not None:
        return shape_from_hf(known.config, known.name, **options)
    path = Path(name).expanduser()
    if path.name.endswith(".json") and path.is_file():
        return shape_from_hf(read_json(path), str(path), **options)
    location = catalogue.resolve(name)
    if location.kind == "gguf":
        return shape_of(location.open().config, **options)
    config = location.path / "config.json"
    return shape_from_hf(read_json(config), str(config), **options)


def shape_of(config: ModelConfig, **options: Any) -> ModelShape:
    """The shape of a model that the decoder computes."""
    return ModelShape(
        num_layers=config.num_layers,
        hidden_size=config.hidden_size,
        mlp_width=config.intermediate_size,
        num_q_heads=config.num_q_heads,
        num_kv_heads=config.num_kv_heads,
        head_dim=config.head_dim,
        vocab_size=config.vocab_size,
        **options,
    )


def shape_from_hf(
    values: Mapping[str, Any], origin: str = "config.json", **options: Any
) -> ModelShape:
    """The shape that a parsed `config.json` states; of a multimodal model its language part.

    Raises:
        UsageError: AI-MODEL-001 (missing key), AI-MODEL-002 (absurd value).
        UnsupportedError: AI-MODEL-004 where layers differ or keys and values are compressed.
    """
    text = Fields(values=values, origin=origin).mapping("text_config")
    fields = Fields(values=text or values, origin=origin)
    _refuse_other_layers(fields)
    hidden_size = fields.positive_int("hidden_size")
    num_q_heads = fields.positive_int("num_attention_heads")
    experts = next((key for key in _EXPERTS if fields.get(key)), None)
    routed: dict[str, Any] = {}
    width = "intermediate_size"
    if experts is not None:
        if fields.get("moe_intermediate_size") is not None:
            width = "moe_intermediate_size"
        routed = {
            "num_experts": fields.positive_int(experts),
            "active_experts": fields.positive_int("num_experts_per_tok"),
            "shared_width": _shared_width(fields, width),
        }
    return ModelShape(
        num_layers=fields.positive_int("num_hidden_layers"),
        hidden_size=hidden_size,
        mlp_width=fields.positive_int(width),
        num_q_heads=num_q_heads,
        num_kv_heads=fields.positive_int("num_key_value_heads", num_q_heads),
        head_dim=fields.positive_int("head_dim", max(hidden_size // num_q_heads, 1)),
        vocab_size=fields.positive_int("vocab_size"),
        **routed,
        **options,
    )


def _shared_width(fields: Fields, width: str) -> int:
    """What every token visits beside its experts."""
    if fields.get("shared_expert_intermediate_size"):
        return fields.positive_int("shared_expert_intermediate_size")
    if fields.get("n_shared_experts"):
        return fields.positive_int("n_shared_experts") * fields.positive_int(width)
    return 0


def _refuse_other_layers(fields: Fields) -> None:
    kinds = fields.get("layer_types") or ()
    checks = (
        ("kv_lora_rank", fields.get("kv_lora_rank") is None, "keys and values are kept per head"),
        (
            "layer_types",
            all(kind in _ALIKE_LAYERS for kind in kinds),
            "every layer has attention over cached keys and values",
        ),
        (
            "first_k_dense_replace",
            not fields.get("first_k_dense_replace"),
            "all layers have the same kind of MLP",
        ),
        ("mlp_only_layers", not fields.get("mlp_only_layers"), "all layers have routed experts"),
        ("decoder_sparse_step", fields.get("decoder_sparse_step") in (None, 1), "likewise"),
    )
    for key, holds, rule in checks:
        if not holds:
            raise UnsupportedError(
                "AI-MODEL-004",
                f"{fields.origin}: {key} is {str(fields.get(key))[:80]}",
                rule=f"the estimate assumes that {rule}",
                fix="leave out --model, and give --layers for the streams",
            )
