"""Further public models, written from cards and papers: counts within a percent of the card."""

from __future__ import annotations

from typing import Any

import pytest

from ascend_infer.estimates import read_decoder, weight_ledger


def config(
    model_type: str,
    layers: int,
    hidden_size: int,
    width: int,
    heads: int,
    kv_heads: int,
    vocab_size: int,
    **further: Any,
) -> dict[str, Any]:
    return {
        "model_type": model_type,
        "num_hidden_layers": layers,
        "hidden_size": hidden_size,
        "intermediate_size": width,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": vocab_size,
        **further,
    }


def experts(count: int, active: int, **further: Any) -> dict[str, Any]:
    return {"num_local_experts": count, "num_experts_per_tok": active, **further}


CARDS: dict[str, tuple[float, dict[str, Any]]] = {
    "Mistral Large 2": (123, config("mistral", 88, 12288, 28672, 96, 8, 32768)),
    "Mistral Nemo": (
        12.2,
        config("mistral", 40, 5120, 14336, 32, 8, 131072, head_dim=128, sliding_window=None),
    ),
    "Mixtral 8x22B": (
        141,
        config("mixtral", 56, 6144, 16384, 48, 8, 32768) | experts(8, 2),
    ),
    "Llama 4 Maverick, text": (
        400,
        {
            "model_type": "llama4",
            "text_config": config(
                "llama4_text", 48, 5120, 8192, 40, 8, 202048, intermediate_size_mlp=16384
            )
            | experts(128, 1, interleave_moe_layer_step=2),
        },
    ),
    "MiniMax M2": (
        230,
        config("minimax_m2", 62, 3072, 1536, 48, 8, 200064, head_dim=128) | experts(256, 8),
    ),
    "Phi-3.5-MoE": (
        41.9,
        config("phimoe", 32, 4096, 6400, 32, 8, 32064, attention_bias=True, lm_head_bias=True)
        | experts(16, 2),
    ),
    "Phi-2": (2.78, config("phi", 32, 2560, 10240, 32, 32, 51200)),
    "Qwen1.5-MoE-A2.7B": (
        14.3,
        config("qwen2_moe", 24, 2048, 5632, 16, 16, 151936, moe_intermediate_size=1408)
        | {
            "num_experts": 60,
            "num_experts_per_tok": 4,
            "shared_expert_intermediate_size": 5632,
        },
    ),
    "GLM-4.5": (
        355,
        config("glm4_moe", 92, 5120, 12288, 96, 8, 151552, head_dim=128, attention_bias=True)
        | {
            "use_qk_norm": True,
            "n_routed_experts": 160,
            "num_experts_per_tok": 8,
            "moe_intermediate_size": 1536,
            "n_shared_experts": 1,
            "first_k_dense_replace": 3,
        },
    ),
    "Gemma 2B": (2.51, config("gemma", 18, 2048, 16384, 8, 1, 256000, head_dim=256)),
    "Gemma 7B": (8.54, config("gemma", 28, 3072, 24576, 16, 16, 256000, head_dim=256)),
    "Gemma 2 27B": (27.2, config("gemma2", 46, 4608, 36864, 32, 16, 256000, head_dim=128)),
    "Command R": (35, config("cohere", 40, 8192, 22528, 64, 64, 256000)),
    "Granite 3.1 8B": (
        8.17,
        config("granite", 40, 4096, 12800, 32, 8, 49155, tie_word_embeddings=True),
    ),
    "StarCoder2 15B": (
        15.96,
        config("starcoder2", 40, 6144, 24576, 48, 4, 49152, tie_word_embeddings=False),
    ),
    "SmolLM3": (3.08, config("smollm3", 36, 2048, 11008, 16, 4, 128256)),
    "OLMo 2 7B": (7.3, config("olmo2", 32, 4096, 11008, 32, 32, 100352)),
    "OLMoE": (
        6.92,
        config("olmoe", 16, 2048, 1024, 16, 16, 50304)
        | {"num_experts": 64, "num_experts_per_tok": 8},
    ),
    "Seed-OSS 36B": (36.2, config("seed_oss", 64, 5120, 27648, 80, 8, 155136, head_dim=128)),
    "EXAONE 4.0 32B": (
        32.0,
        config("exaone4", 64, 5120, 27392, 40, 8, 102400, sliding_window=4096, head_dim=128),
    ),
    "StarCoder": (
        15.5,
        {
            "model_type": "gpt_bigcode",
            "n_embd": 6144,
            "n_layer": 40,
            "n_head": 48,
            "n_inner": 24576,
            "n_positions": 8192,
            "vocab_size": 49152,
            "multi_query": True,
        },
    ),
    "GPT-2": (
        0.124,
        {
            "model_type": "gpt2",
            "n_embd": 768,
            "n_layer": 12,
            "n_head": 12,
            "n_positions": 1024,
            "vocab_size": 50257,
        },
    ),
}


@pytest.mark.parametrize("name", CARDS)
def test_parameters_are_within_a_percent_of_the_card(name: str) -> None:
    billions, values = CARDS[name]
    assert weight_ledger(read_decoder(values)).parameters / 1e9 == pytest.approx(billions, rel=0.01)
