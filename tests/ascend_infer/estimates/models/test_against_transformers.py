"""Parameter counts against the model classes of the transformers library, exactly."""

from __future__ import annotations

from typing import Any

import pytest

from ascend_infer.estimates import read_decoder, weight_ledger
from ascend_infer.estimates.models.families import FAMILIES
from tests.ascend_infer.estimates.models.random_configs import random_config

transformers = pytest.importorskip("transformers")
import torch  # noqa: E402

#: Types that are parts of multimodal models, or that the library knows by another type.
_AS = {
    "qwen2_vl": "qwen2",
    "qwen2_5_vl": "qwen2",
    "qwen2_vl_text": "qwen2",
    "qwen2_5_vl_text": "qwen2",
    "qwen3_vl_text": "qwen3",
    "qwen3_vl_moe_text": "qwen3_moe",
    "qwen2_5_omni_text": "qwen2",
    "qwen3_omni_moe_text": "qwen3_moe",
    "kimi_k2": "deepseek_v3",
}


def library_config(config: dict[str, Any]) -> Any:
    model_type = _AS.get(config["model_type"], config["model_type"])
    values = {key: value for key, value in config.items() if key != "model_type"}
    return transformers.AutoConfig.for_model(model_type, **values)


def parameters(config: dict[str, Any]) -> int:
    """Of the library's model, allocated nowhere."""
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(library_config(config))
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("model_type", FAMILIES)
def test_counts_are_equal(model_type: str) -> None:
    for seed in range(4):
        config = random_config(model_type, seed)
        ours = weight_ledger(read_decoder(config)).parameters
        assert ours == parameters(config), config


def test_a_wrong_count_would_be_found() -> None:
    """The comparison sees one bias, one norm and one expert."""
    every = {"mlp_only_layers": [], "decoder_sparse_step": 1, "attention_bias": False}
    config = random_config("qwen3_moe", 0) | every
    count = parameters(config)
    for key, other in (("attention_bias", True), ("num_experts", config["num_experts"] + 1)):
        assert weight_ledger(read_decoder(config | {key: other})).parameters != count


@pytest.mark.parametrize("model_type", FAMILIES)
def test_windows_are_those_of_the_library(model_type: str) -> None:
    for seed in range(8):
        config = random_config(model_type, seed)
        library = library_config(config)
        kinds = getattr(library, "layer_types", None)
        window = getattr(library, "sliding_window", None)
        chunk = getattr(library, "attention_chunk_size", None)
        if kinds is None:
            expected = [window or 0] * len(read_decoder(config).layers)
        else:
            sizes = {"sliding_attention": window or 0, "chunked_attention": chunk or 0}
            expected = [sizes.get(kind, 0) for kind in kinds]
        found = [layer.attention.window for layer in read_decoder(config).layers]
        assert found == expected, config
