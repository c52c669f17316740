"""Boundaries, Amdahl's law, and advice on what to optimise."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_infer.estimates import (
    Advice,
    Parallel,
    Precision,
    Work,
    advise,
    amdahl,
    boundary_seconds,
    estimate_step,
    get_format,
    load_decoder,
    migration_gain,
    roof_of,
)
from kernels_npu.errors import UsageError

QWEN = load_decoder("qwen2.5-7b")
ROOF = roof_of("910B2")


@given(st.floats(0, 1), st.floats(0.01, 1e6))
def test_amdahl_is_the_time_before_over_the_time_after(share: float, speedup: float) -> None:
    assert amdahl(share, speedup) == pytest.approx(1 / ((1 - share) + share / speedup))


def test_amdahl_at_its_ends() -> None:
    assert amdahl(0.0, math.inf) == 1
    assert amdahl(0.75, math.inf) == 4
    assert amdahl(1.0, math.inf) == math.inf
    assert amdahl(1.0, 3) == 3


@pytest.mark.parametrize(
    "arguments", [(-0.1, 2), (1.1, 2), (math.nan, 2), (0.5, 0), (0.5, -1), (0.5, math.nan)]
)
def test_shares_and_speedups_that_cannot_be_meant(arguments: tuple[float, float]) -> None:
    with pytest.raises(UsageError) as caught:
        amdahl(*arguments)
    assert caught.value.code == "AI-EST-001"


def test_moving_operators_can_lose() -> None:
    assert migration_gain(10.0, compute=3.0, conversion=1.0, copies=2.0, sync=1.0) == 3.0
    assert migration_gain(1.0, compute=0.5, sync=0.7) == pytest.approx(-0.2)
    with pytest.raises(UsageError):
        migration_gain(1.0, compute=-1)


@pytest.mark.parametrize("wrong", [(0, 2, 1e-6), (28, -1, 1e-6), (28, 2, -1), (28, 2, math.inf)])
def test_boundaries_that_cannot_be_meant(wrong: tuple[int, int, float]) -> None:
    with pytest.raises(UsageError) as caught:
        boundary_seconds(*wrong)
    assert caught.value.code == "AI-EST-001"


def gains(advice: Advice) -> dict[str, float]:
    return {gain.change: gain.latency for gain in advice.gains}


def test_short_contexts_are_about_weights_and_long_ones_about_the_cache() -> None:
    short = advise(QWEN, ROOF, batch=1, context=2000)
    assert "products with weights" in short.verdict and "gate_up_proj" in short.measurements[1]
    assert gains(short)["weights in int4, 128 per 16-bit scale"] > 2
    assert gains(short)["keys and values in int8"] < 1.02
    long = advise(QWEN, ROOF, batch=8, context=100_000)
    assert "attention over the cache" in long.verdict and "attention" in long.measurements[1]
    assert gains(long)["keys and values in int8"] > 1.6
    assert gains(long)["weights in int4, 128 per 16-bit scale"] < 1.3


def test_gains_are_ratios_of_bounds() -> None:
    batch, context = 16, 8192
    advice = advise(QWEN, ROOF, batch=batch, context=context)
    work, int8 = Work.batch(batch, context), get_format("int8", scales=False)
    before = estimate_step(QWEN, work, ROOF)
    after = estimate_step(QWEN, work, ROOF, Precision(kv=int8))
    assert gains(advice)["keys and values in int8"] == before.seconds / after.seconds
    twice = estimate_step(QWEN, work, ROOF, parallel=Parallel(tensor=2))
    assert gains(advice)["tensor parallelism over 2 ranks"] == before.seconds / twice.seconds
    better = gains(advice)["an attention kernel at its bound"]
    assert better == amdahl(before.share("attention"), 1 / 0.5)
    # A kernel that is at its bound already cannot gain.
    perfect = advise(QWEN, ROOF, batch=batch, context=context, efficiency=1.0)
    assert gains(perfect)["an attention kernel at its bound"] == 1


def test_where_compute_binds_narrower_products_help() -> None:
    """Thousands of rows: weights alone in int8 gain nothing, products in int8 do."""
    advice = gains(advise(QWEN, ROOF, batch=4000, context=16))
    assert advice["weights in int8, one row per 32-bit scale"] < 1.05
    assert advice["activations in int8, weights in int8"] > 1.5
    without = roof_of("910B2", peak_tflops=300)
    assert "activations in int8, weights in int8" in gains(
        advise(QWEN, without, batch=1, context=16)
    )


def test_batching_trades_latency_for_throughput_up_to_what_fits() -> None:
    advice = advise(QWEN, ROOF, batch=1, context=8192)
    (batching,) = [gain for gain in advice.gains if gain.change.startswith("batch of")]
    largest = int(batching.change.split()[2].rstrip(","))
    assert advice.fits and advice.largest_batch == largest
    assert batching.latency < 1 < batching.throughput
    step = estimate_step(QWEN, Work.batch(largest, 8192), ROOF)
    assert batching.throughput == pytest.approx(
        (largest / step.seconds) / (1 / advice.step.seconds)
    )
    full = advise(QWEN, ROOF, batch=largest + 1, context=8192)
    assert not full.fits and "does not fit" in full.verdict
    assert not any(gain.change.startswith("batch of") for gain in full.gains)


def test_what_is_not_possible_is_not_advised() -> None:
    int4 = Precision(weights=get_format("int4"), kv=get_format("int8", scales=False))
    changes = gains(advise(QWEN, ROOF, batch=1, context=100, precision=int4))
    assert not any(change.startswith(("weights in", "keys and values")) for change in changes)
    # 28 ranks hold one head each, and 56 are too many.
    ranks = advise(QWEN, ROOF, batch=1, context=100, parallel=Parallel(tensor=28))
    assert not any("tensor parallelism" in change for change in gains(ranks))


def test_a_measured_step_far_from_its_bound_points_at_the_host() -> None:
    bound = advise(QWEN, ROOF, batch=1, context=2000).step.seconds
    far = advise(QWEN, ROOF, batch=1, context=2000, measured_seconds=5 * bound)
    assert gains(far)["run at the bound"] == pytest.approx(5)
    assert "launches" in far.measurements[0]
    impossible = advise(QWEN, ROOF, batch=1, context=2000, measured_seconds=bound / 2)
    assert "cannot be" in impossible.measurements[0]
    near = advise(QWEN, ROOF, batch=1, context=2000, measured_seconds=1.1 * bound)
    assert not any("launches and the device" in text for text in near.measurements)
