"""KV ledger, capacity, roofline and quantisation beyond published figures."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_infer.estimates import (
    MODELS,
    Parallel,
    Precision,
    capacity,
    flip_rows,
    gemm_intensity,
    get_format,
    kv_ledger,
    load_decoder,
    quantise_model,
    roof_of,
    roofline_ledger,
    weight_ledger,
)
from kernels_npu.errors import UsageError

BF16 = get_format("bfloat16")
GIB = 2**30


# ----------------------------------------------------------------------------------------- KV


@pytest.mark.parametrize("name", MODELS)
def test_sequences_are_sums_over_layers_and_tokens(name: str) -> None:
    decoder, context = load_decoder(name), 5000
    expected = 0
    for layer in decoder.layers:
        attention = layer.attention
        tokens = min(context, attention.window) if attention.window else context
        elements = attention.latent or attention.kv_heads * 2 * attention.key_dim
        expected += 2 * elements * tokens
    ledger = kv_ledger(decoder, BF16, context=context, batch=3)
    assert ledger.sequence_bytes == expected
    assert ledger.total_bytes == 3 * expected
    assert ledger.allocated_bytes_at(context) >= expected


def test_more_ranks_than_kv_heads_copy_them() -> None:
    decoder = load_decoder("qwen2.5-7b")
    sizes = {
        ranks: kv_ledger(decoder.on_rank(Parallel(tensor=ranks)), BF16, context=1).token_bytes
        for ranks in (1, 2, 4, 14, 28)
        if ranks != 14
    }
    assert sizes == {1: 57344, 2: 28672, 4: 14336, 28: 14336}
    latent = load_decoder("deepseek-v3")
    assert kv_ledger(latent.on_rank(Parallel(tensor=16)), BF16, context=1).token_bytes == (
        kv_ledger(latent, BF16, context=1).token_bytes
    )


def test_cached_scales_are_counted() -> None:
    decoder = load_decoder("qwen2.5-7b")
    per_head = get_format("int8", group=0, scale_bits=32)
    # Per layer 4 heads of keys and of values: 128 bytes and a scale of 4 each.
    assert kv_ledger(decoder, per_head, context=1).token_bytes == 28 * 2 * 4 * (128 + 4)
    bare = get_format("int8", scales=False)
    assert kv_ledger(decoder, bare, context=1).token_bytes == 28672


# ------------------------------------------------------------------------------------ capacity


@given(st.integers(1, 10**12), st.floats(0, 0.99), st.integers(0, 10**12), st.integers(1, 10**6))
def test_as_many_sequences_fit_and_not_one_more(
    memory: int, reserve: float, weights: int, context: int
) -> None:
    kv = kv_ledger(load_decoder("llama-3.2-1b"), BF16, context=context, block_size=16)
    room = capacity(memory, weights, kv, (context,), reserve=reserve)
    (fit,) = room.sequences.values()
    size = kv.allocated_bytes_at(context)
    assert fit == 0 or fit * size <= room.kv_budget
    assert (fit + 1) * size > room.kv_budget
    assert room.fits == (fit > 0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"reserve": 1.0},
        {"reserve": -0.1},
        {"reserve": math.nan},
        {"workspace_bytes": -1},
        {"memory_bytes": 0},
        {"memory_bytes": None},
    ],
)
def test_memories_that_cannot_be_meant(wrong: dict[str, float | None]) -> None:
    kv = kv_ledger(load_decoder("llama-3.2-1b"), BF16, context=10)
    arguments = {"memory_bytes": GIB, "weight_bytes": 1, "kv": kv, "contexts": (10,)} | wrong
    with pytest.raises(UsageError) as caught:
        capacity(**arguments)  # type: ignore[arg-type]
    assert caught.value.code == "AI-EST-001"


# ------------------------------------------------------------------------------------ roofline


@given(
    st.floats(1, 2000), st.integers(1, 20000), st.integers(1, 20000),
    st.sampled_from([0.5, 1, 2, 4]), st.sampled_from([1, 2, 4]),
)  # fmt: skip
def test_the_flip_is_the_first_row_at_the_balance(
    balance: float, n: int, k: int, weight: float, activation: float
) -> None:
    sizes = {"weight_bytes": weight, "activation_bytes": activation}
    rows = flip_rows(balance, n, k, **sizes)
    if rows is None:
        assert gemm_intensity(10**12, n, k, **sizes) <= balance * (1 + 1e-9)
        return
    if rows < 10**12:
        assert gemm_intensity(rows, n, k, **sizes) >= balance * (1 - 1e-9)
    if 1 < rows < 10**12:
        assert gemm_intensity(rows - 1, n, k, **sizes) <= balance * (1 + 1e-9)


def test_quantised_weights_flip_earlier() -> None:
    decoder, roof = load_decoder("qwen2.5-7b"), roof_of("910B2")
    plain = {p.name: p for p in roofline_ledger(decoder, roof).products}
    int4 = {
        p.name: p
        for p in roofline_ledger(decoder, roof, Precision(weights=get_format("int4"))).products
    }
    ratio = plain["down_proj"].flip_rows / int4["down_proj"].flip_rows  # type: ignore[operator]
    assert ratio == pytest.approx(16 / 4.125, rel=0.02)
    assert plain["lm_head"] == int4["lm_head"]


def test_shapes_of_the_caller_and_attention_of_the_model() -> None:
    roof = roof_of("H100-announced")
    ledger = roofline_ledger(load_decoder("deepseek-v3"), roof, rows=4, shapes=((100, 7),))
    given_shape = ledger.products[-1]
    assert (given_shape.n, given_shape.k) == (100, 7)
    assert given_shape.intensity == gemm_intensity(4, 100, 7)
    # 128 heads share one compressed vector: near the balance of a device, unlike GQA.
    assert ledger.attention_intensity == pytest.approx(2 * 128 * (576 + 512) / (576 * 2))


# -------------------------------------------------------------------------------- quantisation


@pytest.mark.parametrize("name", ["qwen2.5-7b", "qwen3-30b-a3b", "deepseek-v2-lite", "gpt-oss-20b"])
@pytest.mark.parametrize("dtype", ["int8", "int4", "mxfp4", "bfloat16"])
def test_the_quantised_model_is_the_weight_ledger_in_bytes(name: str, dtype: str) -> None:
    decoder, precision = load_decoder(name), Precision(weights=get_format(dtype))
    ledger, weights = quantise_model(decoder, precision), weight_ledger(decoder, precision)
    assert ledger.elements + ledger.kept_elements == weights.parameters
    assert ledger.bytes == weights.bytes
    assert ledger.compression == pytest.approx(2 * weights.parameters / weights.bytes)
    if dtype != "bfloat16":
        assert ledger.bits_per_weight < ledger.bits_per_parameter < 16
