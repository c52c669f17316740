"""Configurations as decoders: structure, nested ones, and what cannot be meant."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_infer.estimates import MODELS, Decoder, kv_ledger, read_decoder, weight_ledger
from ascend_infer.estimates.formats import FORMATS
from ascend_infer.estimates.models.families import FAMILIES
from kernels_npu.errors import AscendInferError, UnsupportedError
from tests.ascend_infer.estimates.models.random_configs import random_config

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 100,
}


def code_of(config: dict[str, Any]) -> str:
    with pytest.raises(AscendInferError) as caught:
        read_decoder(config)
    assert caught.value.rule or caught.value.fix
    return caught.value.code


def public(name: str) -> Decoder:
    return read_decoder(MODELS[name].config)


def test_kinds_of_attention() -> None:
    kinds = {
        kv: read_decoder({**LLAMA, "num_key_value_heads": kv}).layers[0].attention.kind
        for kv in (8, 2, 1)
    }
    assert kinds == {8: "MHA", 2: "GQA", 1: "MQA"}
    assert public("deepseek-v3").layers[0].attention.kind == "MLA"


def test_latent_attention_caches_one_vector_for_all_heads() -> None:
    attention = public("deepseek-v3").layers[0].attention
    assert attention.cached_elements == 512 + 64
    ledger = kv_ledger(public("deepseek-v3"), FORMATS["bfloat16"], context=1)
    assert ledger.token_bytes == 61 * 576 * 2


def test_alternating_windows_and_what_they_keep() -> None:
    windows = [layer.attention.window for layer in public("gemma-3-27b").layers]
    assert windows[:7] == [1024] * 5 + [0, 1024]
    assert windows.count(0) == 10 and len(windows) == 62
    ledger = kv_ledger(public("gemma-3-27b"), FORMATS["bfloat16"], context=100_000)
    per_layer = 2 * 16 * 128 * 2
    assert ledger.sequence_bytes == per_layer * (10 * 100_000 + 52 * 1024)
    assert ledger.sequence_bytes_at(500) == per_layer * 62 * 500


def test_dense_layers_come_before_those_with_experts() -> None:
    kinds = [layer.mlp.kind for layer in public("deepseek-v3").layers]
    assert kinds == ["dense"] * 3 + ["MoE"] * 58
    names = {matrix.name for matrix in public("deepseek-v3").layers[-1].mlp.matrices}
    assert {"router", "experts.gate_proj", "shared_experts.down_proj"} <= names


def test_a_tied_head_is_counted_once_and_stays_readable() -> None:
    apart, tied = (read_decoder({**LLAMA, "tie_word_embeddings": tied}) for tied in (False, True))
    counts = [weight_ledger(decoder).parameters for decoder in (apart, tied)]
    assert counts[0] - counts[1] == 100 * 64
    assert tied.head.elements == 100 * 64


@pytest.mark.parametrize("key", ["text_config", "llm_config", "language_config"])
def test_of_multimodal_models_the_language_part_counts(key: str) -> None:
    nested = {"model_type": "llava", key: LLAMA, "vision_config": {"hidden_size": 7}}
    decoder = read_decoder(nested)
    assert weight_ledger(decoder) == weight_ledger(read_decoder(LLAMA))
    assert any("language part" in note for note in decoder.notes)
    # What ties the weights may be said outside.
    tied = read_decoder({**nested, "tie_word_embeddings": True})
    assert tied.tied_head
    assert code_of({"model_type": "llava", key: 3}) == "AI-MODEL-002"
    assert code_of({"model_type": "llava", key: {}}) == "AI-MODEL-001"


def test_parts_of_parts_are_found() -> None:
    omni = {"model_type": "omni", "thinker_config": {"model_type": "x", "text_config": LLAMA}}
    decoder = read_decoder(omni)
    assert weight_ledger(decoder) == weight_ledger(read_decoder(LLAMA))
    assert "thinker_config.text_config" in decoder.notes[0]
    with pytest.raises(AscendInferError, match=r"thinker_config\.text_config"):
        read_decoder({"thinker_config": {"text_config": {"model_type": "llama"}}})


def test_defaults_on_which_published_files_rely_are_said() -> None:
    """Gemma 3 4B states neither heads nor vocabulary."""
    text = {
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "model_type": "gemma3_text",
        "num_hidden_layers": 34,
        "sliding_window": 1024,
    }
    decoder = read_decoder({"model_type": "gemma3", "text_config": text})
    assert weight_ledger(decoder).parameters / 1e9 == pytest.approx(3.88, rel=0.01)
    assert any("num_attention_heads 8" in note for note in decoder.notes)


@pytest.mark.parametrize("key", ["num_nextn_predict_layers", "num_mtp_modules"])
def test_quantised_checkpoints_and_prediction_layers_are_noted(key: str) -> None:
    config = {**LLAMA, "quantization_config": {"bits": 4}, key: 1}
    notes = " ".join(read_decoder(config).notes)
    assert "quantised" in notes and "predict" in notes


@pytest.mark.parametrize(
    "config",
    [
        {**LLAMA, "model_type": "mamba2"},
        {**LLAMA, "model_type": "qwen3_next", "linear_num_value_heads": 32},
        {**LLAMA, "model_type": "jamba", "mamba_d_state": 16},
        {**LLAMA, "mamba_d_state": 16},
        {**LLAMA, "layer_types": ["linear_attention", "full_attention"] * 2},
        {**LLAMA, "model_type": "unheard_of"},
        {**LLAMA, "model_type": ["llama"]},
        {**LLAMA, "model_type": 7},
        {**LLAMA, "model_type": "t5"},
        {**LLAMA, "model_type": "smollm3", "use_sliding_window": True},
        {**LLAMA, "attn_type_list": [0, 0, 0, 1]},
        {**LLAMA, "linear_attn_config": {"kda_layers": [1]}},
        {**LLAMA, "block_configs": [{"attention": {"no_op": True}}]},
        {**LLAMA, "cross_attention_layers": [1]},
        {**LLAMA, "is_encoder_decoder": True},
        {**LLAMA, "num_local_experts": 8, "num_experts_per_tok": 2},
        {**LLAMA, "model_type": "qwen3", "num_experts": 128},
    ],
)
def test_what_is_not_covered_is_said_rather_than_guessed(config: dict[str, Any]) -> None:
    assert code_of(config) == "AI-EST-004"


@pytest.mark.parametrize(
    "further",
    [
        {"attn_type_list": [1] * LLAMA["num_hidden_layers"]},
        {"num_experts": 1, "n_routed_experts": None, "moe_num_experts": 0},
        {"is_encoder_decoder": False, "cross_attention_layers": [], "block_configs": None},
    ],
)
def test_what_is_said_of_every_layer_alike_changes_nothing(further: dict[str, Any]) -> None:
    assert read_decoder({**LLAMA, **further}) == read_decoder(LLAMA)


def test_recurrent_states_are_named() -> None:
    with pytest.raises(UnsupportedError, match="linear_num_value_heads") as caught:
        read_decoder({**LLAMA, "model_type": "qwen3_next", "linear_num_value_heads": 32})
    assert "recurrent" in str(caught.value.rule)


@pytest.mark.parametrize("key", [key for key in LLAMA if key != "num_key_value_heads"])
def test_a_missing_key_is_named(key: str) -> None:
    with pytest.raises(AscendInferError) as caught:
        read_decoder({k: v for k, v in LLAMA.items() if k != key})
    assert caught.value.code == "AI-MODEL-001" and key in caught.value.what


@pytest.mark.parametrize("key", [key for key in LLAMA if key != "model_type"])
@pytest.mark.parametrize(
    "value", [0, -1, 1.5, "64", True, float("nan"), float("inf"), [], {}, 2**31, 10**400]
)
def test_an_absurd_value_is_named(key: str, value: Any) -> None:
    with pytest.raises(AscendInferError) as caught:
        read_decoder({**LLAMA, key: value})
    assert caught.value.code == "AI-MODEL-002" and key in str(caught.value)


@pytest.mark.parametrize(
    "further",
    [
        {"num_hidden_layers": 10_001},
        {"num_key_value_heads": 3},
        {"tie_word_embeddings": "yes"},
        {"attention_bias": 1},
        {"layer_types": ["full_attention"]},
        {"layer_types": "full_attention"},
        {"model_type": "qwen2", "use_sliding_window": "no"},
        {"model_type": "gemma2", "sliding_window": -4},
        {"model_type": "exaone4", "sliding_window": 8, "sliding_window_pattern": "LXG"},
        {"model_type": "mixtral", "num_local_experts": 2, "num_experts_per_tok": 3},
        {"model_type": "mixtral", "num_local_experts": "8", "num_experts_per_tok": 2},
    ],
)
def test_contradictions_are_coded_errors(further: dict[str, Any]) -> None:
    assert code_of({**LLAMA, **further}) == "AI-MODEL-002"


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5),
    st.lists(st.one_of(st.integers(), st.text(max_size=3)), max_size=4),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)  # fmt: skip


@given(st.sampled_from(sorted(FAMILIES)), st.integers(0, 50), st.data())
def test_any_change_of_a_configuration_is_read_or_a_coded_error(
    model_type: str, seed: int, data: st.DataObject
) -> None:
    config = random_config(model_type, seed)
    for key in data.draw(st.lists(st.sampled_from(sorted(config)), max_size=3)):
        config[key] = data.draw(VALUES)
    try:
        outcome = weight_ledger(read_decoder(config)).parameters > 0
    except AscendInferError as error:
        outcome = error.code.startswith(("AI-MODEL-", "AI-EST-")) and bool(error.what)
    assert outcome
