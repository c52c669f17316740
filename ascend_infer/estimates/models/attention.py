"""Attention of a layer from a configuration: heads with keys and values, or a shared latent."""

from __future__ import annotations

from ascend_infer.estimates.models.decoder import Attention
from ascend_infer.estimates.models.indexers import Choice, read_indexer
from ascend_infer.estimates.models.keys import Keys
from ascend_infer.estimates.models.matrix import Matrix
from kernels_npu.errors import UsageError


def read_attention(keys: Keys, hidden_size: int, window: int, choice: Choice = "none") -> Attention:
    """The attention that the family's layers have, with a window of that many keys (0: none).

    choice: where the tokens come from that a query attends to, if not all count.

    Raises:
        UsageError: AI-MODEL-001 (missing key), AI-MODEL-002 (absurd value).
    """
    if keys.family.attention == "latent":
        return _latent(keys, hidden_size, window, choice)
    return _heads(keys, hidden_size, window)


def _heads(keys: Keys, hidden_size: int, window: int) -> Attention:
    q_heads = keys.integer("num_attention_heads")
    kv_heads = _kv_heads(keys, q_heads)
    _require_multiple(keys, q_heads, kv_heads)
    head_dim = keys.integer("head_dim", _even_head_dim(keys, hidden_size, q_heads))
    bias = keys.flag(keys.family.qkv_bias)

    def projection(name: str, heads: int) -> Matrix:
        return Matrix(
            name=name,
            operator="qkv_proj",
            outputs=heads * head_dim,
            inputs=hidden_size,
            bias=bias,
            split="outputs",
            units=heads,
        )

    return Attention(
        matrices=(
            projection("q_proj", q_heads),
            projection("k_proj", kv_heads),
            projection("v_proj", kv_heads),
            _output(keys, hidden_size, q_heads, head_dim),
        ),
        vectors=_norms_of_heads(keys, q_heads, kv_heads, head_dim)
        + (q_heads if keys.family.sinks else 0),
        q_heads=q_heads,
        kv_heads=kv_heads,
        key_dim=head_dim,
        value_dim=head_dim,
        prefill_key_dim=head_dim,
        prefill_value_dim=head_dim,
        window=window,
    )


def _kv_heads(keys: Keys, q_heads: int) -> int:
    if keys.family.kv_heads == "by multi_query":
        return 1 if keys.fields.boolean("multi_query", True) else q_heads
    as_queries = q_heads if keys.family.kv_heads == "as queries" else None
    return keys.integer("num_key_value_heads", as_queries)


def _latent(keys: Keys, hidden_size: int, window: int, choice: Choice) -> Attention:
    """Multi-head latent attention: one compressed vector and one rotated key per token."""
    heads = keys.integer("num_attention_heads")
    rank, rotated = keys.integer("kv_lora_rank"), keys.integer("qk_rope_head_dim")
    nope, value_dim = keys.integer("qk_nope_head_dim"), keys.integer("v_head_dim")
    bias = keys.flag(keys.family.qkv_bias)

    def down(name: str, outputs: int) -> Matrix:
        return Matrix(
            name=name, operator="qkv_a_proj", outputs=outputs, inputs=hidden_size, bias=bias
        )

    def by_heads(name: str, per_head: int, inputs: int) -> Matrix:
        return Matrix(
            name=name,
            operator=name,
            outputs=heads * per_head,
            inputs=inputs,
            split="outputs",
            units=heads,
        )

    key_dim = nope + rotated
    if keys.fields.get("q_lora_rank") is None:
        queries: tuple[Matrix, ...] = (by_heads("q_proj", key_dim, hidden_size),)
        norms = rank
    else:
        q_rank = keys.integer("q_lora_rank")
        queries = (down("q_a_proj", q_rank), by_heads("q_b_proj", key_dim, q_rank))
        norms = rank + q_rank
    indexer, chooses, index_norms = read_indexer(keys, hidden_size, choice)
    return Attention(
        matrices=(
            *queries,
            down("kv_a_proj", rank + rotated),
            by_heads("kv_b_proj", nope + value_dim, rank),
            *chooses,
            _output(keys, hidden_size, heads, value_dim),
        ),
        vectors=norms + index_norms,
        q_heads=heads,
        kv_heads=1,
        key_dim=rank + rotated,
        value_dim=rank,
        prefill_key_dim=key_dim,
        prefill_value_dim=value_dim,
        latent=rank + rotated,
        window=window,
        indexer=indexer,
    )


def _output(keys: Keys, hidden_size: int, heads: int, value_dim: int) -> Matrix:
    return Matrix(
        name="o_proj",
        operator="o_proj",
        outputs=hidden_size,
        inputs=heads * value_dim,
        bias=keys.flag(keys.family.o_bias),
        split="inputs",
        units=heads,
    )


def _norms_of_heads(keys: Keys, q_heads: int, kv_heads: int, head_dim: int) -> int:
    family = keys.family
    if not family.qk_norm or not keys.flag(family.qk_norm_if, otherwise=True):
        return 0
    per_element = 2 if family.norm == "layer" else 1
    heads = q_heads + kv_heads if family.qk_norm == "all" else 2
    return heads * head_dim * per_element


def _even_head_dim(keys: Keys, hidden_size: int, q_heads: int) -> int | None:
    """Hidden size over heads; None where that is no whole number and must be stated."""
    return hidden_size // q_heads if hidden_size % q_heads == 0 else None


def _require_multiple(keys: Keys, q_heads: int, kv_heads: int) -> None:
    if q_heads % kv_heads:
        raise UsageError(
            "AI-MODEL-002",
            f"{keys.fields.origin}: {q_heads} query heads, {kv_heads} key/value heads",
            rule="the query heads divide evenly among the key/value heads",
            fix="correct num_attention_heads or num_key_value_heads",
        )
