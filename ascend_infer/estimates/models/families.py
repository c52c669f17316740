"""What distinguishes architectures: biases, norms, windows, experts, and names of keys.

Read in the model files of the transformers library, whose parameter counts the tests compare with.
A model type that is not here is reported as not covered, since a guess would be a wrong count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple


class When(NamedTuple):
    """A property that the configuration decides: its key, and what absence means."""

    key: str
    default: bool = False


Flag = bool | When


@dataclass(frozen=True, kw_only=True)
class ExpertKeys:
    """Where a configuration states its experts.

    count, active, width: keys; the first of `count` that is present.
    layers: which layers have experts, a rule of `models.mlp`.
    shared_count: key of how many further experts every token visits; shared_width: key of the
    width of one further MLP. shared_gate: whether a gate of one output scales it.
    bias: of the experts. router_bias, router_vector: of the router; a vector that shifts its choice
    and is stored as a parameter.
    """

    count: tuple[str, ...] = ("num_experts", "num_local_experts", "n_routed_experts")
    active: str = "num_experts_per_tok"
    width: str = "moe_intermediate_size"
    layers: Literal["all", "after_first", "sparse_step", "types", "interleaved", "range"] = "all"
    shared_count: str = ""
    shared_width: str = ""
    shared_gate: bool = False
    bias: Flag = False
    router_bias: bool = False
    router_vector: bool = False


@dataclass(frozen=True, kw_only=True)
class Family:
    """How the layers of some model types are built; defaults are those of Llama.

    norm: elements per normalised element: `rms` 1, `layer` 2 (weight and bias), `none` 0.
    norms: per layer. qk_norm: of queries and keys, `head` over each head with shared weights, `all`
    with a weight per element; qk_norm_if: key that switches it on.
    mlp: `gated` (gate, up, down) or `plain` (up, down).
    windows: which layers have a sliding window, a rule of `models.windows`; pattern: its period.
    kv_heads: what a missing num_key_value_heads means: as many as query heads, or an error.
    defaults: values of the model class on which published configurations rely.
    width_multiple: MLP width over hidden size where the configuration leaves it out; 0 is an error.
    learned_positions: key of how many position vectors are parameters.
    renamed: our key -> theirs. refused: keys that must be false or absent.
    """

    names: tuple[str, ...]
    norm: Literal["rms", "layer", "none"] = "rms"
    norms: int = 2
    qkv_bias: Flag = False
    o_bias: Flag = False
    qk_norm: Literal["", "head", "all"] = ""
    qk_norm_if: When | None = None
    sinks: bool = False
    attention: Literal["heads", "latent"] = "heads"
    mlp: Literal["gated", "plain"] = "gated"
    mlp_bias: Flag = False
    dense_width: str = "intermediate_size"
    experts: ExpertKeys | None = None
    tied: bool = False
    head_bias: Flag = False
    kv_heads: Literal["as queries", "stated"] = "as queries"
    windows: Literal["never", "always", "types", "upper", "chunks", "if switched on"] = "never"
    pattern: int = 0
    width_multiple: int = 0
    learned_positions: str = ""
    defaults: Mapping[str, int] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    refused: tuple[str, ...] = ()


_ATTENTION_BIAS = When("attention_bias")
_MLP_BIAS = When("mlp_bias")
_USE_BIAS = When("use_bias")
_DEEPSEEK_EXPERTS = ExpertKeys(layers="after_first", shared_count="n_shared_experts")
_QWEN_EXPERTS = ExpertKeys(layers="sparse_step")
_PLAIN_WIDTH = ExpertKeys(width="intermediate_size")

_TABLE: tuple[Family, ...] = (
    Family(names=("llama",), qkv_bias=_ATTENTION_BIAS, o_bias=_ATTENTION_BIAS, mlp_bias=_MLP_BIAS),
    Family(
        names=("mistral",),
        kv_heads="stated",
        windows="always",
        defaults={"sliding_window": 4096},
    ),
    Family(names=("ministral3",), kv_heads="stated", windows="always"),
    Family(
        names=("ministral",),
        kv_heads="stated",
        windows="types",
        defaults={"sliding_window": 4096},
    ),
    Family(names=("mixtral",), kv_heads="stated", windows="always", experts=_PLAIN_WIDTH),
    Family(
        names=("qwen2", "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"),
        qkv_bias=True,
        windows="upper",
    ),
    Family(
        names=("qwen2_moe",),
        qkv_bias=When("qkv_bias", True),
        refused=("use_sliding_window",),
        experts=ExpertKeys(
            layers="sparse_step", shared_width="shared_expert_intermediate_size", shared_gate=True
        ),
    ),
    Family(
        names=("qwen3", "qwen3_vl_text"),
        qkv_bias=_ATTENTION_BIAS,
        o_bias=_ATTENTION_BIAS,
        qk_norm="head",
        windows="upper",
        defaults={"head_dim": 128},
    ),
    Family(
        names=("qwen3_moe", "qwen3_vl_moe_text"),
        qkv_bias=_ATTENTION_BIAS,
        o_bias=_ATTENTION_BIAS,
        qk_norm="head",
        kv_heads="stated",
        windows="if switched on",
        experts=_QWEN_EXPERTS,
    ),
    Family(
        names=("phi",),
        norm="layer",
        norms=1,
        qkv_bias=True,
        o_bias=True,
        mlp="plain",
        mlp_bias=True,
        head_bias=True,
        qk_norm="head",
        qk_norm_if=When("qk_layernorm"),
    ),
    Family(names=("phi3",), windows="always"),
    Family(
        names=("phimoe",),
        norm="layer",
        qkv_bias=_ATTENTION_BIAS,
        o_bias=_ATTENTION_BIAS,
        head_bias=When("lm_head_bias"),
        kv_heads="stated",
        windows="always",
        experts=_PLAIN_WIDTH,
    ),
    Family(
        names=("gemma",),
        qkv_bias=_ATTENTION_BIAS,
        o_bias=_ATTENTION_BIAS,
        kv_heads="stated",
        tied=True,
        defaults={"head_dim": 256},
    ),
    Family(
        names=("gemma2",),
        norms=4,
        qkv_bias=_ATTENTION_BIAS,
        o_bias=_ATTENTION_BIAS,
        kv_heads="stated",
        tied=True,
        windows="types",
        pattern=2,
        defaults={"head_dim": 256, "sliding_window": 4096},
    ),
    Family(
        names=("gemma3_text",),
        norms=4,
        qkv_bias=_ATTENTION_BIAS,
        o_bias=_ATTENTION_BIAS,
        qk_norm="head",
        kv_heads="stated",
        tied=True,
        windows="types",
        pattern=6,
        defaults={
            "head_dim": 256,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "vocab_size": 262_208,
            "sliding_window": 4096,
        },
    ),
    Family(
        names=("gpt_oss",),
        qkv_bias=When("attention_bias", True),
        o_bias=When("attention_bias", True),
        sinks=True,
        kv_heads="stated",
        windows="types",
        pattern=2,
        defaults={"head_dim": 64, "sliding_window": 128},
        experts=ExpertKeys(width="intermediate_size", bias=True, router_bias=True),
    ),
    Family(
        names=("deepseek_v2",),
        attention="latent",
        qkv_bias=_ATTENTION_BIAS,
        o_bias=_ATTENTION_BIAS,
        mlp_bias=_MLP_BIAS,
        experts=_DEEPSEEK_EXPERTS,
    ),
    Family(
        names=("deepseek_v3", "kimi_k2"),
        attention="latent",
        qkv_bias=_ATTENTION_BIAS,
        o_bias=_ATTENTION_BIAS,
        experts=_DEEPSEEK_EXPERTS,
    ),
    Family(
        names=("glm4_moe_lite",),
        attention="latent",
        qkv_bias=_ATTENTION_BIAS,
        o_bias=_ATTENTION_BIAS,
        experts=ExpertKeys(layers="types", shared_count="n_shared_experts"),
    ),
    Family(names=("glm",), qkv_bias=When("attention_bias", True), kv_heads="stated"),
    Family(names=("glm4",), norms=4, qkv_bias=When("attention_bias", True), kv_heads="stated"),
    Family(
        names=("glm4_moe",),
        qkv_bias=_ATTENTION_BIAS,
        qk_norm="head",
        qk_norm_if=When("use_qk_norm"),
        kv_heads="stated",
        experts=_DEEPSEEK_EXPERTS,
    ),
    Family(
        names=("starcoder2",),
        norm="layer",
        qkv_bias=When("use_bias", True),
        o_bias=When("use_bias", True),
        mlp="plain",
        mlp_bias=When("use_bias", True),
        kv_heads="stated",
        tied=True,
        windows="always",
    ),
    Family(names=("olmo",), norm="none", qkv_bias=_ATTENTION_BIAS, o_bias=_ATTENTION_BIAS),
    Family(names=("olmo2",), qkv_bias=_ATTENTION_BIAS, o_bias=_ATTENTION_BIAS, qk_norm="all"),
    Family(
        names=("olmo3",),
        qkv_bias=_ATTENTION_BIAS,
        o_bias=_ATTENTION_BIAS,
        qk_norm="all",
        windows="types",
        pattern=4,
        defaults={"sliding_window": 4096},
    ),
    Family(
        names=("olmoe",),
        qkv_bias=_ATTENTION_BIAS,
        o_bias=_ATTENTION_BIAS,
        qk_norm="all",
        experts=_PLAIN_WIDTH,
    ),
    Family(
        names=("cohere",),
        norms=1,
        qkv_bias=_ATTENTION_BIAS,
        o_bias=_ATTENTION_BIAS,
        qk_norm="all",
        qk_norm_if=When("use_qk_norm"),
        tied=True,
    ),
    Family(
        names=("cohere2",),
        norms=1,
        qkv_bias=_ATTENTION_BIAS,
        o_bias=_ATTENTION_BIAS,
        tied=True,
        windows="types",
        pattern=4,
        defaults={"sliding_window": 4096},
    ),
    Family(
        names=("granite",), qkv_bias=_ATTENTION_BIAS, o_bias=_ATTENTION_BIAS, mlp_bias=_MLP_BIAS
    ),
    Family(
        names=("granitemoe",),
        qkv_bias=_ATTENTION_BIAS,
        o_bias=_ATTENTION_BIAS,
        experts=_PLAIN_WIDTH,
    ),
    Family(
        names=("granitemoeshared",),
        qkv_bias=_ATTENTION_BIAS,
        o_bias=_ATTENTION_BIAS,
        experts=ExpertKeys(width="intermediate_size", shared_width="shared_intermediate_size"),
    ),
    Family(
        names=("smollm3",),
        qkv_bias=_ATTENTION_BIAS,
        o_bias=_ATTENTION_BIAS,
        mlp_bias=_MLP_BIAS,
        kv_heads="stated",
        tied=True,
        refused=("use_sliding_window",),
    ),
    Family(names=("exaone4",), qk_norm="head", kv_heads="stated", windows="types", pattern=4),
    Family(names=("minimax_m2",), qk_norm="all", kv_heads="stated", experts=_PLAIN_WIDTH),
    Family(
        names=("seed_oss",),
        qkv_bias=When("attention_bias", True),
        o_bias=When("attention_out_bias"),
        mlp_bias=_MLP_BIAS,
        kv_heads="stated",
        defaults={"head_dim": 128},
    ),
    Family(
        names=("hunyuan_v1_dense",),
        qkv_bias=_ATTENTION_BIAS,
        o_bias=_ATTENTION_BIAS,
        qk_norm="head",
    ),
    Family(
        names=("ernie4_5",),
        qkv_bias=_USE_BIAS,
        o_bias=_USE_BIAS,
        mlp_bias=_USE_BIAS,
        kv_heads="stated",
        tied=True,
        defaults={"head_dim": 128},
    ),
    Family(
        names=("ernie4_5_moe",),
        qkv_bias=_USE_BIAS,
        o_bias=_USE_BIAS,
        mlp_bias=_USE_BIAS,
        head_bias=_USE_BIAS,
        kv_heads="stated",
        tied=True,
        experts=ExpertKeys(
            count=("moe_num_experts",),
            active="moe_k",
            layers="range",
            shared_count="moe_num_shared_experts",
            router_vector=True,
        ),
    ),
    Family(
        names=("llama4_text",),
        qkv_bias=_ATTENTION_BIAS,
        o_bias=_ATTENTION_BIAS,
        dense_width="intermediate_size_mlp",
        kv_heads="stated",
        windows="chunks",
        pattern=4,
        defaults={"head_dim": 128, "attention_chunk_size": 8192},
        experts=ExpertKeys(
            width="intermediate_size", shared_width="intermediate_size", layers="interleaved"
        ),
    ),
    Family(
        names=("stablelm",),
        norm="layer",
        qkv_bias=When("use_qkv_bias"),
        kv_heads="stated",
        refused=("qk_layernorm", "use_parallel_residual"),
    ),
    Family(
        names=("gpt_neox",),
        norm="layer",
        qkv_bias=When("attention_bias", True),
        o_bias=When("attention_bias", True),
        mlp="plain",
        mlp_bias=True,
    ),
    Family(
        names=("nemotron",),
        norm="layer",
        qkv_bias=_ATTENTION_BIAS,
        o_bias=_ATTENTION_BIAS,
        mlp="plain",
        mlp_bias=_MLP_BIAS,
    ),
    Family(
        names=("arcee",),
        qkv_bias=_ATTENTION_BIAS,
        o_bias=_ATTENTION_BIAS,
        mlp="plain",
        mlp_bias=_MLP_BIAS,
    ),
    Family(
        names=("gpt2",),
        norm="layer",
        qkv_bias=True,
        o_bias=True,
        mlp="plain",
        mlp_bias=True,
        tied=True,
        width_multiple=4,
        learned_positions="n_positions",
        renamed={
            "hidden_size": "n_embd",
            "num_hidden_layers": "n_layer",
            "num_attention_heads": "n_head",
            "intermediate_size": "n_inner",
            "max_position_embeddings": "n_positions",
        },
    ),
)

FAMILIES: dict[str, Family] = {name: family for family in _TABLE for name in family.names}
