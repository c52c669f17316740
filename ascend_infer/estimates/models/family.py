"""What distinguishes architectures: biases, norms, windows, experts, and names of keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple


class When(NamedTuple):
    """A property that the configuration decides: its key, and what absence means."""

    key: str
    default: bool = False


Flag = bool | When
ATTENTION_BIAS = When("attention_bias")
MLP_BIAS = When("mlp_bias")
USE_BIAS = When("use_bias")


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
    indexer: which layers choose the tokens that a query attends to, a rule of `models.indexers`.
    mlp: `gated` (gate, up, down) or `plain` (up, down).
    windows: which layers have a sliding window, a rule of `models.windows`; pattern: its period.
    kv_heads: what a missing num_key_value_heads means: as many as query heads, or an error; or a
    key of its own decides between one head and as many.
    defaults: values of the model class on which published configurations rely.
    width_multiple: MLP width over hidden size where the configuration leaves it out; 0 is an error.
    learned_positions: key of how many position vectors are parameters.
    renamed: our key -> theirs. refused: keys that must be false or absent.
    """

    names: tuple[str, ...]
    norm: Literal["rms", "layer", "none"] = "rms"
    norms: int = 2
    qkv_bias: Flag = ATTENTION_BIAS
    o_bias: Flag = ATTENTION_BIAS
    qk_norm: Literal["", "head", "all"] = ""
    qk_norm_if: When | None = None
    sinks: bool = False
    attention: Literal["heads", "latent"] = "heads"
    indexer: Literal["", "every layer", "some layers"] = ""
    mlp: Literal["gated", "plain"] = "gated"
    mlp_bias: Flag = False
    dense_width: str = "intermediate_size"
    experts: ExpertKeys | None = None
    tied: bool = False
    head_bias: Flag = False
    kv_heads: Literal["as queries", "stated", "by multi_query"] = "as queries"
    windows: Literal["never", "always", "types", "upper", "chunks", "if switched on"] = "never"
    pattern: int = 0
    width_multiple: int = 0
    learned_positions: str = ""
    defaults: Mapping[str, int] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    refused: tuple[str, ...] = ()
