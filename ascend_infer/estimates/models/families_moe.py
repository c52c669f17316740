"""Architectures with routed experts."""

from __future__ import annotations

from ascend_infer.estimates.models.family import (
    MLP_BIAS,
    USE_BIAS,
    ExpertKeys,
    Family,
    When,
)

PLAIN_WIDTH = ExpertKeys(width="intermediate_size")
DEEPSEEK_EXPERTS = ExpertKeys(layers="after_first", shared_count="n_shared_experts")

MOE: tuple[Family, ...] = (
    Family(
        names=("mixtral",),
        qkv_bias=False,
        o_bias=False,
        experts=PLAIN_WIDTH,
        kv_heads="stated",
        windows="always",
    ),
    Family(
        names=("qwen2_moe",),
        qkv_bias=When("qkv_bias", True),
        o_bias=False,
        experts=ExpertKeys(
            layers="sparse_step", shared_width="shared_expert_intermediate_size", shared_gate=True
        ),
        refused=("use_sliding_window",),
    ),
    Family(
        names=("qwen3_moe", "qwen3_vl_moe_text", "qwen3_omni_moe_text"),
        qk_norm="head",
        experts=ExpertKeys(layers="sparse_step"),
        kv_heads="stated",
        windows="if switched on",
    ),
    Family(
        names=("phimoe",),
        norm="layer",
        experts=PLAIN_WIDTH,
        head_bias=When("lm_head_bias"),
        kv_heads="stated",
        windows="always",
    ),
    Family(
        names=("gpt_oss",),
        qkv_bias=When("attention_bias", True),
        o_bias=When("attention_bias", True),
        sinks=True,
        experts=ExpertKeys(width="intermediate_size", bias=True, router_bias=True),
        kv_heads="stated",
        windows="types",
        pattern=2,
        defaults={"head_dim": 64, "sliding_window": 128},
    ),
    Family(names=("deepseek_v2",), attention="latent", mlp_bias=MLP_BIAS, experts=DEEPSEEK_EXPERTS),
    Family(names=("deepseek_v3", "kimi_k2"), attention="latent", experts=DEEPSEEK_EXPERTS),
    Family(
        names=("deepseek_v32",),
        attention="latent",
        indexer="every layer",
        experts=ExpertKeys(layers="types", shared_count="n_shared_experts"),
    ),
    Family(
        names=("glm_moe_dsa",),
        attention="latent",
        indexer="some layers",
        experts=ExpertKeys(layers="types", shared_count="n_shared_experts"),
    ),
    Family(
        names=("glm4_moe_lite",),
        attention="latent",
        experts=ExpertKeys(layers="types", shared_count="n_shared_experts"),
    ),
    Family(
        names=("glm4_moe",),
        o_bias=False,
        qk_norm="head",
        qk_norm_if=When("use_qk_norm"),
        experts=DEEPSEEK_EXPERTS,
        kv_heads="stated",
    ),
    Family(names=("olmoe",), qk_norm="all", experts=PLAIN_WIDTH),
    Family(names=("flex_olmo",), qk_norm="all", experts=PLAIN_WIDTH),
    Family(names=("granitemoe",), experts=PLAIN_WIDTH),
    Family(
        names=("granitemoeshared",),
        experts=ExpertKeys(width="intermediate_size", shared_width="shared_intermediate_size"),
    ),
    Family(
        names=("exaone_moe",),
        qkv_bias=False,
        o_bias=False,
        qk_norm="head",
        experts=ExpertKeys(layers="types", shared_count="num_shared_experts"),
        kv_heads="stated",
        windows="types",
        pattern=4,
    ),
    Family(
        names=("solar_open",),
        o_bias=False,
        experts=ExpertKeys(shared_count="n_shared_experts"),
        kv_heads="stated",
        defaults={"head_dim": 128},
    ),
    Family(
        names=("minimax_m2",),
        qkv_bias=False,
        o_bias=False,
        qk_norm="all",
        experts=PLAIN_WIDTH,
        kv_heads="stated",
    ),
    Family(
        names=("ernie4_5_moe",),
        qkv_bias=USE_BIAS,
        o_bias=USE_BIAS,
        mlp_bias=USE_BIAS,
        experts=ExpertKeys(
            count=("moe_num_experts",),
            active="moe_k",
            layers="range",
            shared_count="moe_num_shared_experts",
            router_vector=True,
        ),
        tied=True,
        head_bias=USE_BIAS,
        kv_heads="stated",
    ),
    Family(
        names=("llama4_text",),
        dense_width="intermediate_size_mlp",
        experts=ExpertKeys(
            width="intermediate_size", layers="interleaved", shared_width="intermediate_size"
        ),
        kv_heads="stated",
        windows="chunks",
        pattern=4,
        defaults={"head_dim": 128, "attention_chunk_size": 8192},
    ),
)
