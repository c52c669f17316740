"""A `config.json` as a decoder."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from ascend_infer.estimates.models.attention import read_attention
from ascend_infer.estimates.models.decoder import Decoder, Layer
from ascend_infer.estimates.models.families import FAMILIES
from ascend_infer.estimates.models.family import Family
from ascend_infer.estimates.models.indexers import read_choices
from ascend_infer.estimates.models.keys import Keys
from ascend_infer.estimates.models.matrix import Matrix
from ascend_infer.estimates.models.mlp import read_mlps
from ascend_infer.estimates.models.windows import read_windows
from ascend_infer.model.fields import Fields
from kernels_npu.errors import UnsupportedError

#: Where configurations of multimodal models keep their language part.
_NESTED = ("text_config", "llm_config", "language_config", "thinker_config")
#: Keys of layers that keep a state instead of keys and values.
_RECURRENT = (
    "linear_num_value_heads",
    "mamba_d_state",
    "mamba_num_heads",
    "ssm_state_size",
    "state_size",
    "ssm_cfg",
    "hybrid_override_pattern",
    "attn_layer_period",
    "lru_width",
    "conv_L_cache",
    "block_types",
    "linear_attn_config",
)
_ELEMENTS = {"rms": 1, "layer": 2, "none": 0}


def read_decoder(values: Mapping[str, Any], origin: str = "config.json") -> Decoder:
    """The decoder that a parsed `config.json` states; of a multimodal model its language part.

    Raises:
        UsageError: AI-MODEL-001 (missing key), AI-MODEL-002 (absurd value).
        UnsupportedError: AI-EST-004 for an architecture that the estimates do not cover.
    """
    outer = Fields(values=values, origin=origin)
    fields, nested = _language_part(outer)
    family = _family(fields)
    keys = Keys(fields=fields, family=family)
    keys.refuse()
    hidden_size, vocab_size = keys.integer("hidden_size"), keys.integer("vocab_size")
    count = keys.layers()
    per_norm = _ELEMENTS[family.norm] * hidden_size
    mlps = read_mlps(keys, hidden_size, count)
    windows = read_windows(keys, count)
    sights = tuple(zip(windows, read_choices(keys, count), strict=True))
    attentions = {
        sight: read_attention(keys, hidden_size, *sight) for sight in dict.fromkeys(sights)
    }
    layers = tuple(
        Layer(
            attention=attentions[sight],
            mlp=mlp,
            norms=family.norms,
            norm_elements=family.norms * per_norm,
        )
        for sight, mlp in zip(sights, mlps, strict=True)
    )
    tied = fields.boolean("tie_word_embeddings", outer.boolean("tie_word_embeddings", family.tied))
    positions = keys.integer(family.learned_positions) if family.learned_positions else 0
    return Decoder(
        name=_name(outer, origin),
        architecture=str(fields.get("model_type")),
        hidden_size=hidden_size,
        vocab_size=vocab_size,
        layers=layers,
        embedding=_vocabulary("embed_tokens", vocab_size, hidden_size, bias=False),
        head=_vocabulary("lm_head", vocab_size, hidden_size, bias=keys.flag(family.head_bias)),
        tied_head=tied,
        norm_elements=per_norm,
        other_elements=positions * hidden_size,
        max_context=_max_context(keys),
        notes=tuple(_notes(keys, outer, nested)),
    )


def _language_part(outer: Fields) -> tuple[Fields, str]:
    """The innermost part that is about language, and the keys that lead to it."""
    fields, path = outer, ""
    while (key := next((k for k in _NESTED if fields.get(k) is not None), None)) is not None:
        path = f"{path}.{key}" if path else key
        fields = Fields(values=fields.mapping(key) or {}, origin=f"{outer.origin}, {path}")
    return fields, path


def _vocabulary(name: str, vocab_size: int, hidden_size: int, *, bias: bool) -> Matrix:
    return Matrix(
        name=name,
        operator=name,
        outputs=vocab_size,
        inputs=hidden_size,
        bias=bias,
        split="outputs",
        units=vocab_size,
        quantised=False,
    )


def _family(fields: Fields) -> Family:
    architecture = fields.get("model_type")
    if architecture is None:
        raise fields.missing("model_type")
    family = FAMILIES.get(architecture) if isinstance(architecture, str) else None
    recurrent = [key for key in _RECURRENT if fields.get(key) is not None]
    if family is not None and not recurrent:
        return family
    near = difflib.get_close_matches(str(architecture), FAMILIES, n=3)
    raise UnsupportedError(
        "AI-EST-004",
        f"{fields.origin}: model_type {str(architecture)[:60]!r}"
        + (f" with {', '.join(recurrent)}" if recurrent else ""),
        rule="layers that keep a recurrent state are another ledger than keys and values"
        if recurrent
        else f"covered are {', '.join(FAMILIES)}",
        fix="compute this part by hand; an estimate that ignores it would be wrong"
        if recurrent
        else "use one of these"
        + (f", perhaps {' or '.join(near)}" if near else "")
        + ", if its layers are built alike",
    )


def _name(outer: Fields, origin: str) -> str:
    stated = outer.get("_name_or_path")
    return stated if isinstance(stated, str) and stated else origin


def _max_context(keys: Keys) -> int:
    name = keys.family.renamed.get("max_position_embeddings", "max_position_embeddings")
    return keys.integer("max_position_embeddings") if keys.fields.get(name) else 0


def _notes(keys: Keys, outer: Fields, nested: str) -> list[str]:
    notes = []
    if nested:
        notes.append(f"the language part ({nested}) only; encoders of images or sound are left out")
    if keys.used_defaults:
        stated = ", ".join(f"{key} {value:,}" for key, value in keys.used_defaults.items())
        notes.append(f"not stated and taken from the model class: {stated}")
    for fields in (keys.fields, outer):
        if fields.get("quantization_config") is not None:
            notes.append("the checkpoint is quantised; bytes follow the dtypes given here instead")
            break
    predicting = (
        "num_nextn_predict_layers",
        "num_mtp_layers",
        "num_mtp_modules",
        "mtp_num_layers",
        "mtp_num_hidden_layers",
    )
    notes += [
        f"further layers that predict several tokens ({key}) are left out"
        for key in predicting
        if keys.fields.get(key)
    ]
    return notes
