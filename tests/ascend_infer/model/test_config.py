"""Configurations: what is read, what is derived, and which code each wrong value gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ascend_infer.model.config import ModelConfig, read_json
from kernels_npu.errors import AscendInferError

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 1000,
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
}


def code(values: dict[str, Any]) -> str:
    with pytest.raises(AscendInferError) as caught:
        ModelConfig.from_hf(values)
    assert caught.value.fix
    return caught.value.code


def test_derived_values():
    config = ModelConfig.from_hf(LLAMA)
    assert (config.head_dim, config.rotary_dim) == (32, 32)
    assert (config.q_size, config.kv_size) == (256, 64)
    assert not config.qkv_bias and not config.tied_head and config.sliding_window == 0


def test_explicit_head_dim_and_partial_rotation():
    config = ModelConfig.from_hf({**LLAMA, "head_dim": 64, "partial_rotary_factor": 0.5})
    assert (config.head_dim, config.rotary_dim) == (64, 32)


def test_without_key_value_heads_every_query_head_has_its_own():
    values = {k: v for k, v in LLAMA.items() if k != "num_key_value_heads"}
    assert ModelConfig.from_hf(values).num_kv_heads == 8


@pytest.mark.parametrize("model_type, output_bias", [("llama", True), ("qwen2", False)])
def test_attention_bias(model_type: str, output_bias: bool):
    config = ModelConfig.from_hf({**LLAMA, "model_type": model_type, "attention_bias": True})
    assert config.qkv_bias and config.output_bias is output_bias


def test_qwen2_always_has_a_qkv_bias():
    assert ModelConfig.from_hf({**LLAMA, "model_type": "qwen2"}).qkv_bias


def test_rope_parameters_of_newer_files():
    rope = {"rope_type": "linear", "factor": 2.0, "rope_theta": 77.0}
    values = {**LLAMA, "rope_parameters": rope}
    del values["rope_theta"]
    config = ModelConfig.from_hf(values)
    assert config.rope_theta == 77.0
    assert (config.rope_scaling.kind, config.rope_scaling.factor) == ("linear", 2.0)


def test_older_name_of_the_scaling_kind():
    config = ModelConfig.from_hf({**LLAMA, "rope_scaling": {"type": "linear", "factor": 4}})
    assert config.rope_scaling.kind == "linear"


@pytest.mark.parametrize("eos, expected", [(2, (2,)), ([2, 5], (2, 5)), (None, ())])
def test_end_tokens(eos: Any, expected: tuple[int, ...]):
    assert ModelConfig.from_hf({**LLAMA, "eos_token_id": eos}).eos_token_ids == expected


@pytest.mark.parametrize("window, expected", [(None, 0), (1024, 1024), (4096, 0), (100000, 0)])
def test_mistral_window(window: int | None, expected: int):
    config = ModelConfig.from_hf({**LLAMA, "model_type": "mistral", "sliding_window": window})
    assert config.sliding_window == expected


def test_qwen2_window_counts_only_when_switched_on():
    values = {**LLAMA, "model_type": "qwen2", "sliding_window": 64}
    assert ModelConfig.from_hf({**values, "use_sliding_window": False}).sliding_window == 0
    assert code({**values, "use_sliding_window": True}) == "AI-MODEL-004"


@pytest.mark.parametrize(
    "key",
    [
        "model_type",
        "vocab_size",
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "max_position_embeddings",
        "rms_norm_eps",
    ],
)
@pytest.mark.parametrize("null", [True, False])
def test_missing_key(key: str, null: bool):
    values = {**LLAMA, key: None} if null else {k: v for k, v in LLAMA.items() if k != key}
    assert code(values) == "AI-MODEL-001"


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden_size": 0},
        {"hidden_size": -64},
        {"hidden_size": "256"},
        {"hidden_size": 256.0},
        {"hidden_size": True},
        {"vocab_size": 2**40},
        {"num_hidden_layers": []},
        {"rms_norm_eps": 0},
        {"rms_norm_eps": float("nan")},
        {"rms_norm_eps": 5.0},
        {"rope_theta": float("inf")},
        {"rope_theta": -1},
        {"hidden_size": 250},
        {"num_key_value_heads": 3},
        {"head_dim": 31},
        {"partial_rotary_factor": 1.5},
        {"partial_rotary_factor": 0.001},
        {"eos_token_id": 1000},
        {"eos_token_id": "</s>"},
        {"attention_bias": 1},
        {"rope_scaling": "linear"},
        {"rope_scaling": {"type": "linear", "factor": 0}},
        {
            "rope_scaling": {
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 4.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192,
            }
        },
    ],
    ids=str,
)
def test_absurd_value(changes: dict[str, Any]):
    assert code({**LLAMA, **changes}) == "AI-MODEL-002"


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({"model_type": "gemma2"}, "AI-MODEL-003"),
        ({"hidden_act": "gelu"}, "AI-MODEL-004"),
        ({"mlp_bias": True}, "AI-MODEL-004"),
        ({"quantization_config": {"bits": 4}}, "AI-MODEL-004"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "AI-MODEL-004"),
        ({"rope_scaling": {"rope_type": "linear"}}, "AI-MODEL-001"),
    ],
    ids=str,
)
def test_unsupported(changes: dict[str, Any], expected: str):
    assert code({**LLAMA, **changes}) == expected


@pytest.mark.parametrize(
    "value", [10**400, 1e308, float("inf"), float("nan"), -1.0, 0, True, "1", [1]]
)
@pytest.mark.parametrize("key", ["rope_theta", "rms_norm_eps", "partial_rotary_factor"])
def test_absurd_numbers(key: str, value: object):
    assert code({**LLAMA, key: value}) == "AI-MODEL-002"


def test_a_share_of_a_head_is_at_most_one():
    assert code({**LLAMA, "partial_rotary_factor": 1.5}) == "AI-MODEL-002"


def test_json_that_nests_too_deeply(tmp_path: Path):
    (tmp_path / "config.json").write_text('{"a":' * 100_000)
    with pytest.raises(AscendInferError, match="AI-MODEL-007"):
        read_json(tmp_path / "config.json")
