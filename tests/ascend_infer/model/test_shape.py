"""Model shapes from configurations of several families, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ascend_infer.estimates import MODELS, Work, estimate_step, load_decoder, roof_of
from ascend_infer.model.config import ModelConfig
from ascend_infer.model.shape import read_shape, shape_from_hf, shape_of
from kernels_npu.errors import UnsupportedError, UsageError

DENSE: dict[str, Any] = {
    "model_type": "qwen3",
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 99,
}
ROUTED: dict[str, Any] = {
    **DENSE,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 48,
}


def test_a_dense_model() -> None:
    shape = shape_from_hf(DENSE, weight_bytes=1, tensor_parallel=2)
    assert (shape.num_layers, shape.mlp_width, shape.q_size, shape.kv_size) == (3, 160, 64, 32)
    assert (shape.weight_bytes, shape.num_experts) == (1, 0)


def test_the_head_dimension_follows_from_the_hidden_size() -> None:
    assert shape_from_hf({**DENSE, "head_dim": None}).head_dim == 16


def test_the_language_part_of_a_multimodal_model() -> None:
    assert shape_from_hf({"model_type": "x_vl", "text_config": DENSE}) == shape_from_hf(DENSE)


@pytest.mark.parametrize("key", ["num_experts", "num_local_experts", "n_routed_experts"])
def test_routed_experts(key: str) -> None:
    values = {**ROUTED, key: ROUTED["num_experts"]}
    if key != "num_experts":
        del values["num_experts"]
    shape = shape_from_hf(values)
    assert (shape.num_experts, shape.active_experts, shape.mlp_width) == (8, 2, 48)


def test_experts_as_wide_as_the_dense_layer() -> None:
    shape = shape_from_hf({**ROUTED, "moe_intermediate_size": None})
    assert shape.mlp_width == 160


@pytest.mark.parametrize(
    "extra, width", [({"n_shared_experts": 2}, 96), ({"shared_expert_intermediate_size": 70}, 70)]
)
def test_shared_experts(extra: dict[str, int], width: int) -> None:
    assert shape_from_hf({**ROUTED, **extra}).shared_width == width


@pytest.mark.parametrize(
    "extra",
    [
        {"kv_lora_rank": 512},
        {"layer_types": ["full_attention", "linear_attention", "full_attention"]},
        {"first_k_dense_replace": 1},
        {"mlp_only_layers": [0]},
        {"decoder_sparse_step": 2},
    ],
)
def test_layers_that_differ_are_refused(extra: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedError, match=f"AI-MODEL-004.*{next(iter(extra))}"):
        shape_from_hf({**ROUTED, **extra})


def test_harmless_values_of_the_same_keys() -> None:
    extra = {
        "layer_types": ["full_attention", "sliding_attention"],
        "mlp_only_layers": [],
        "decoder_sparse_step": 1,
        "first_k_dense_replace": 0,
    }
    assert shape_from_hf({**ROUTED, **extra}) == shape_from_hf(ROUTED)


def test_a_missing_dimension() -> None:
    with pytest.raises(UsageError, match=r"AI-MODEL-001.*vocab_size"):
        shape_from_hf({key: value for key, value in DENSE.items() if key != "vocab_size"})


def test_files_and_directories(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(DENSE))
    assert read_shape(str(tmp_path)) == read_shape(str(tmp_path / "config.json"))
    with pytest.raises(UsageError, match="AI-MODEL-005"):
        read_shape(str(tmp_path / "none"))


def test_the_shape_of_a_model_that_is_computed_here() -> None:
    values = {
        **DENSE,
        "model_type": "llama",
        "max_position_embeddings": 128,
        "rms_norm_eps": 1e-6,
    }
    assert shape_of(ModelConfig.from_hf(values)) == shape_from_hf(values)


@pytest.mark.parametrize("name", ["qwen2.5-7b", "llama-3.1-70b", "qwen3-30b-a3b", "mixtral-8x7b"])
@pytest.mark.parametrize("rows", [1, 24])
def test_known_models_read_as_many_bytes_as_in_the_estimates(name: str, rows: int) -> None:
    shape = read_shape(name)
    assert shape.vocab_size == MODELS[name].config["vocab_size"]
    step = estimate_step(load_decoder(name), Work.batch(rows, 4096), roof_of("910B2"))
    weights = sum(line.weight_bytes for line in step.lines if line.kind == "weights")
    # The planner's shape has neither biases nor routers.
    assert shape.weights_read(rows) == pytest.approx(weights, rel=0.005)
    assert shape.kv_read(rows, 4096) == step.line("attention").kv_bytes
