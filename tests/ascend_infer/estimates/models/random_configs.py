"""Random small configurations of every covered architecture, as a `config.json` states them."""

from __future__ import annotations

import random
from typing import Any

from ascend_infer.estimates.models.families import FAMILIES
from ascend_infer.estimates.models.family import Family, When


def random_config(model_type: str, seed: int) -> dict[str, Any]:
    """A configuration whose flags, heads, widths and lists vary with the seed."""
    draw = random.Random(f"{model_type} {seed}")
    family = FAMILIES[model_type]
    kv_heads = draw.choice([1, 2, 4])
    heads = kv_heads * draw.choice([1, 2, 3])
    head_dim = draw.choice([8, 16, 24])
    layers = draw.randint(2, 7)
    config: dict[str, Any] = {
        "model_type": model_type,
        "vocab_size": draw.randint(50, 400),
        "hidden_size": heads * head_dim,
        "intermediate_size": draw.randint(20, 90),
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "max_position_embeddings": 64,
        "tie_word_embeddings": draw.random() < 0.5,
        "head_dim": head_dim,
        "pad_token_id": 0,
    }
    for flag in (
        family.qkv_bias,
        family.o_bias,
        family.mlp_bias,
        family.head_bias,
        family.qk_norm_if,
    ):
        if isinstance(flag, When) and draw.random() < 0.7:
            config[flag.key] = draw.random() < 0.5
    if family.experts is not None:
        config |= _experts(family, layers, draw)
    if family.attention == "latent":
        config |= _latent(draw)
    if family.indexer:
        config |= {"index_n_heads": draw.choice([2, 4]), "index_head_dim": draw.choice([8, 16])}
        config |= {"index_topk": draw.choice([4, 64]), "q_lora_rank": 12}
    if family.indexer == "some layers":
        config |= draw.choice(
            [
                {},
                {"index_topk_freq": 2, "index_skip_topk_offset": draw.randint(0, 3)},
                {"index_topk_pattern": "".join(draw.choice("FS") for _ in range(layers))},
                {"indexer_types": [draw.choice(["full", "shared"]) for _ in range(layers)]},
            ]
        )
    if family.windows in ("types", "always", "upper"):
        config["sliding_window"] = draw.choice([4, 16])
    if family.windows == "upper":
        config |= {"use_sliding_window": draw.random() < 0.5, "max_window_layers": 1}
    if family.windows in ("types", "upper") and draw.random() < 0.5:
        kinds = ("full_attention", "sliding_attention")
        config["layer_types"] = [draw.choice(kinds) for _ in range(layers)]
    if family.learned_positions:
        config[family.learned_positions] = 64
    if model_type == "gpt_bigcode":
        config["multi_query"] = draw.random() < 0.5
    if (
        model_type in ("gpt_neox", "gpt2", "gpt_bigcode", "phi", "cohere2")
        or family.attention == "latent"
    ):
        del config["head_dim"]  # of which these know nothing
    if model_type in ("gpt_neox", "gpt2"):
        config["num_key_value_heads"] = heads
    for ours, theirs in family.renamed.items():
        config[theirs] = config.pop(ours, config.get(theirs))
    return config


def _experts(family: Family, layers: int, draw: random.Random) -> dict[str, Any]:
    keys = family.experts
    assert keys is not None
    # A published file has the key of its model class only.
    count = keys.count[0]
    if family.names[0] in ("mixtral", "phimoe", "gpt_oss", "minimax_m2", "llama4_text") or (
        family.names[0].startswith("granite")
    ):
        count = "num_local_experts"
    elif keys.shared_count == "n_shared_experts":
        count = "n_routed_experts"
    config: dict[str, Any] = {count: draw.randint(3, 6), keys.active: draw.randint(1, 3)}
    if keys.width != "intermediate_size":
        config[keys.width] = draw.randint(10, 40)
    if keys.shared_count:
        config[keys.shared_count] = draw.randint(1, 3)
    if keys.shared_width and keys.shared_width != "intermediate_size":
        config[keys.shared_width] = draw.randint(10, 40)
    config["intermediate_size_mlp"] = draw.randint(20, 60)
    rules: dict[str, dict[str, Any]] = {
        "after_first": {"first_k_dense_replace": draw.randint(0, layers)},
        "sparse_step": {
            "decoder_sparse_step": draw.randint(1, 2),
            "mlp_only_layers": draw.choice([[], [0], [1]]),
        },
        "types": {"mlp_layer_types": [draw.choice(["dense", "sparse"]) for _ in range(layers)]},
        "interleaved": {"interleave_moe_layer_step": draw.randint(1, 2)},
        "range": {
            "moe_layer_start_index": draw.randint(0, 2),
            "moe_layer_end_index": draw.choice([-1, 2]),
            "moe_layer_interval": draw.randint(1, 2),
        },
    }
    return config | rules.get(keys.layers, {})


def _latent(draw: random.Random) -> dict[str, Any]:
    return {
        "q_lora_rank": draw.choice([None, 12, 20]),
        "kv_lora_rank": draw.choice([8, 16]),
        "qk_nope_head_dim": draw.choice([8, 16]),
        "qk_rope_head_dim": draw.choice([4, 8]),
        "v_head_dim": draw.choice([8, 12]),
        "n_group": 1,
        "topk_group": 1,
    }
