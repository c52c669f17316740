"""Operators of a step against counting by hand, ranks, experts, and the clock for simulations."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_infer.estimates import (
    MODELS,
    Decoder,
    Parallel,
    Precision,
    StepClock,
    Work,
    estimate_step,
    get_format,
    kv_ledger,
    load_decoder,
    read_decoder,
    roof_of,
    weight_ledger,
)
from ascend_infer.estimates.models.families import FAMILIES
from kernels_npu.errors import UnsupportedError, UsageError
from tests.ascend_infer.estimates.models.random_configs import random_config

ROOF = roof_of("H100")
#: Peaks so low that everything is bound by compute.
SLOW = roof_of("H100", peak_tflops=1e-6)


@pytest.mark.parametrize("name", ["qwen2.5-7b", "gemma-2-9b", "deepseek-v3", "gpt-oss-20b"])
def test_flops_are_twice_the_active_weights_per_row(name: str) -> None:
    decoder, rows = load_decoder(name), 5
    step = estimate_step(decoder, Work.batch(rows, 100), ROOF)
    flops = sum(line.flops for line in step.lines if line.kind == "weights")
    active = sum(
        matrix.elements * (layer.mlp.active / layer.mlp.experts if matrix.routed else 1)
        for layer in decoder.layers
        for matrix in layer.matrices
    )
    assert flops == pytest.approx(2 * rows * (active + decoder.head.elements))


@pytest.mark.parametrize("name", MODELS)
def test_a_large_batch_reads_every_weight_but_the_embedding(name: str) -> None:
    decoder = load_decoder(name)
    step = estimate_step(decoder, Work.batch(100_000, 2), ROOF)
    read = sum(line.weight_bytes for line in step.lines)
    ledger = weight_ledger(decoder)
    table = 0 if decoder.tied_head else decoder.embedding.elements
    vectors = sum(layer.attention.vectors + layer.mlp.vectors for layer in decoder.layers)
    assert read == pytest.approx(2 * (ledger.parameters - table - vectors), rel=1e-9)


def test_experts_that_are_read_against_drawing_them() -> None:
    """Even routing of 6 rows over 32 experts, 4 each."""
    decoder, rows = load_decoder("gpt-oss-20b"), 6
    draw = random.Random(5)
    visited = [
        len({e for _ in range(rows) for e in draw.sample(range(32), 4)}) for _ in range(4000)
    ]
    read = estimate_step(decoder, Work.batch(rows, 10), ROOF).line("experts.down_proj")
    every = estimate_step(decoder, Work.batch(10**6, 10), ROOF).line("experts.down_proj")
    share = sum(visited) / len(visited) / 32
    assert read.weight_bytes / every.weight_bytes == pytest.approx(share, rel=0.01)


def test_attention_of_a_window_does_not_grow_beyond_it() -> None:
    decoder = load_decoder("mistral-7b-v0.1")
    at, beyond = (
        estimate_step(decoder, Work.batch(2, context), ROOF).line("attention").kv_bytes
        for context in (4096, 30_000)
    )
    assert at == beyond == 2 * 4096 * 32 * 2 * 8 * 128 * 2


def test_latent_attention_decodes_in_the_compressed_space() -> None:
    decoder, context = load_decoder("deepseek-v3"), 1000
    decode = estimate_step(decoder, Work.batch(1, context), ROOF).line("attention")
    assert decode.flops == 61 * 2 * 128 * context * (576 + 512)
    prefill = estimate_step(decoder, Work.prefill(context), ROOF).line("attention")
    assert prefill.flops == 61 * 2 * 128 * (context * (context + 1) // 2) * (192 + 128)


def test_an_indexer_caches_its_keys_and_bounds_what_attention_reads() -> None:
    """DeepSeek-V3.2: 64 small queries score all tokens, 128 heads attend to 2048 of them."""
    index = {"index_n_heads": 64, "index_head_dim": 128, "index_topk": 2048}
    config = MODELS["deepseek-v3"].config | index | {"model_type": "deepseek_v32"}
    decoder, plain = read_decoder(config), load_decoder("deepseek-v3")
    added = weight_ledger(decoder).parameters - weight_ledger(plain).parameters
    assert added == 61 * (1536 * 64 * 128 + 7168 * 128 + 7168 * 64 + 2 * 128)
    assert kv_ledger(decoder, get_format("bfloat16"), context=1).token_bytes == 61 * 2 * (576 + 128)
    for context, attended in ((1000, 1000), (100_000, 2048)):
        step = estimate_step(decoder, Work.batch(3, context), ROOF)
        assert step.line("attention").kv_bytes == 61 * 3 * attended * 576 * 2
        assert step.line("attention").flops == 61 * 3 * 2 * 128 * attended * (576 + 512)
        assert step.line("indexer").kv_bytes == 61 * 3 * context * 128 * 2
        assert step.line("indexer").flops == 61 * 3 * 2 * 64 * context * 128
    prompt = estimate_step(decoder, Work.prefill(5000), ROOF)
    assert prompt.line("attention").kv_bytes == 61 * 5000 * 576 * 2
    clock = StepClock(decoder, ROOF)
    work = Work.prefill(700, 3000) + Work.decode([100, 5000])
    step = estimate_step(decoder, work, ROOF)
    assert clock.seconds(work) == pytest.approx(step.seconds + step.further_seconds)


def test_bounds_say_what_binds() -> None:
    decoder = load_decoder("qwen2.5-7b")
    decode = estimate_step(decoder, Work.batch(1, 100), ROOF)
    prefill = estimate_step(decoder, Work.prefill(4096), ROOF)
    assert decode.line("gate_up_proj").bound == "memory"
    assert prefill.line("gate_up_proj").bound == "compute"
    slow = estimate_step(decoder, Work.batch(1, 100), SLOW)
    flops = sum(line.flops for line in slow.lines if line.kind in ("weights", "attention"))
    assert slow.seconds_of("weights") + slow.seconds_of("attention") == pytest.approx(flops / 1e6)
    assert sum(decode.share(kind) for kind in ("weights", "attention", "norm")) == pytest.approx(1)


@pytest.mark.parametrize("name", ["qwen2.5-7b", "deepseek-v2-lite", "gpt-oss-20b", "mixtral-8x7b"])
@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_together_hold_the_model(name: str, ranks: int) -> None:
    decoder = load_decoder(name)
    heads = decoder.layers[0].attention.q_heads
    if heads % ranks:
        pytest.skip("heads are not divided evenly")
    rank = decoder.on_rank(Parallel(tensor=ranks))
    whole, part = weight_ledger(decoder), weight_ledger(rank)
    assert whole.parameters / ranks <= part.parameters < whole.parameters
    # Only routers, norms, biases and compressed projections are on every rank.
    copied = ranks * part.parameters - whole.parameters
    assert copied < 0.03 * whole.parameters * (ranks - 1)


def test_expert_parallel_divides_experts_whole() -> None:
    decoder = load_decoder("qwen3-30b-a3b")
    rank = decoder.on_rank(Parallel(expert=8))
    experts = [m for m in rank.layers[0].mlp.matrices if m.routed]
    assert {m.copies for m in experts} == {16}
    whole = estimate_step(decoder, Work.batch(64, 10), SLOW).line("experts.down_proj")
    part = estimate_step(decoder, Work.batch(64, 10), SLOW, parallel=Parallel(expert=8)).line(
        "experts.down_proj"
    )
    assert whole.flops == pytest.approx(8 * part.flops)
    assert whole.weight_bytes == pytest.approx(8 * part.weight_bytes)


@pytest.mark.parametrize("ranks", [3, 5, 56, 0, -1])
def test_ranks_that_do_not_divide_heads(ranks: int) -> None:
    with pytest.raises(UsageError) as caught:
        load_decoder("qwen2.5-7b").on_rank(Parallel(tensor=ranks))
    assert caught.value.code == "AI-EST-003"


def test_all_reduces_are_counted_in_bytes() -> None:
    decoder = load_decoder("qwen2.5-7b")
    step = estimate_step(decoder, Work.batch(8, 10), ROOF, parallel=Parallel(tensor=4))
    # Two per layer; a ring sends 2 (N - 1) / N of the tensor.
    assert step.collective_bytes == 28 * 2 * (8 * 3584 * 2) * 2 * 3 // 4
    assert estimate_step(decoder, Work.batch(8, 10), ROOF).collective_bytes == 0


def test_a_dtype_without_a_peak_is_a_coded_error() -> None:
    fp8 = get_format("float8")
    with pytest.raises(UnsupportedError) as caught:
        estimate_step(
            load_decoder("qwen2.5-7b"),
            Work.batch(1, 10),
            roof_of("910B2"),
            Precision(weights=fp8, activations=fp8),
        )
    assert caught.value.code == "AI-DEV-014"
    # Weights alone in it are expanded.
    assert estimate_step(
        load_decoder("qwen2.5-7b"), Work.batch(1, 10), roof_of("910B2"), Precision(weights=fp8)
    ).seconds


@settings(max_examples=60)
@given(
    st.sampled_from(sorted(FAMILIES)),
    st.integers(0, 30),
    st.lists(st.integers(1, 300), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 200)), max_size=3),
    st.booleans(),
)
def test_the_clock_is_the_estimate(
    model_type: str,
    seed: int,
    contexts: list[int],
    chunks: list[tuple[int, int]],
    slow: bool,
) -> None:
    decoder, roof = read_decoder(random_config(model_type, seed)), SLOW if slow else ROOF
    clock = StepClock(decoder, roof, overhead_seconds=1e-7)

    def expected(work: Work) -> float:
        step = estimate_step(decoder, work, roof)
        return step.seconds + step.further_seconds + 1e-7

    decode = Work.decode(contexts)
    mixed = sum((Work.prefill(*chunk) for chunk in chunks), start=decode)
    for _ in range(2):  # computed, then remembered
        found = clock.decode(len(contexts), clock.keys_of(contexts))
        assert math.isclose(found, expected(decode), rel_tol=1e-9)
        assert math.isclose(clock.seconds(mixed), expected(mixed), rel_tol=1e-9)


def test_the_clock_of_a_rank() -> None:
    decoder: Decoder = load_decoder("gemma-3-27b")
    clock = StepClock(decoder, ROOF, parallel=Parallel(tensor=4))
    assert set(clock.windows) == {0, 1024}
    assert clock.token_bytes == 62 * 2 * 4 * 128 * 2
    whole = StepClock(decoder, ROOF)
    keys = clock.keys_of([8192] * 4)
    assert sorted(keys) == [4 * 1024, 4 * 8192]
    assert clock.decode(4, keys) < whole.decode(4, keys)
    assert clock.prefill(1000) > clock.prefill(10, past=990)
    with pytest.raises(UsageError):
        clock.decode(0, keys)
