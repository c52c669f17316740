"""Step times from the estimate: against the estimate itself, and in the simulation."""

from __future__ import annotations

import math
import random

import pytest

from ascend_infer.estimates import Parallel, StepClock, Work, load_decoder, roof_of
from ascend_infer.serving_simulation import CacheRules, Scheduler, simulate
from ascend_infer.serving_simulation.estimated import EstimatedStepTime, blocks_beside_weights
from kernels_npu.errors import UsageError
from tests.ascend_infer.serving_simulation.cases import workload

MODELS = ["qwen2.5-7b", "qwen3-30b-a3b", "deepseek-v2-lite", "gpt-oss-20b", "gemma-2-9b"]


def both(model: str, ranks: int = 1) -> tuple[StepClock, EstimatedStepTime]:
    decoder, roof, parallel = load_decoder(model), roof_of("910B2"), Parallel(tensor=ranks)
    return (
        StepClock(decoder, roof, None, parallel),
        EstimatedStepTime(decoder, roof, None, parallel),
    )


@pytest.mark.parametrize("model", MODELS)
def test_decode_steps_and_prompts_are_those_of_the_estimate(model: str) -> None:
    """Decode with equal contexts, and prompts of few or a multiple of 32 rows: equal."""
    clock, times = both(model)
    for batch, context in ((1, 1), (7, 100), (64, 3000), (256, 40_000)):
        expected = clock.seconds(Work.batch(batch, context))
        assert math.isclose(times.decode(batch, batch, batch * context), expected)
    for tokens, past in ((2, 0), (63, 900), (512, 0), (2048, 30_000)):
        assert math.isclose(times.prefill([(tokens, past)], 0, 0, 0), clock.prefill(tokens, past))


@pytest.mark.parametrize("model", MODELS)
def test_other_prompts_and_mixed_steps_are_close(model: str) -> None:
    """Interpolated rows, several prompts, prompts beside decoding: within two per cent."""
    clock, times = both(model)
    draw = random.Random(1)
    for _ in range(20):
        chunks = [(draw.randint(2, 900), draw.randint(0, 4000)) for _ in range(draw.randint(1, 3))]
        work = Work()
        for tokens, past in chunks:
            work = work + Work.prefill(tokens, past)
        assert math.isclose(times.prefill(chunks, 0, 0, 0), clock.seconds(work), rel_tol=0.02)
        rows, context = draw.randint(1, 64), draw.randint(1, 9000)
        step = (rows, rows, rows * context)
        mixed = times.decode(*step) + times.prefill(chunks, *step)
        expected = clock.seconds(work + Work.batch(rows, context))
        assert math.isclose(mixed, expected, rel_tol=0.02)


def test_overhead_is_of_every_step_once() -> None:
    decoder, roof = load_decoder("qwen2.5-0.5b"), roof_of("910B2")
    plain = EstimatedStepTime(decoder, roof)
    slow = EstimatedStepTime(decoder, roof, overhead_seconds=1.0)
    assert math.isclose(slow.decode(4, 4, 400), 1 + plain.decode(4, 4, 400))
    alone, mixed = ([(50, 0), (60, 0)], 0, 0, 0), ([(50, 0)], 4, 4, 400)
    assert math.isclose(slow.prefill(*alone), 1 + plain.prefill(*alone))
    assert math.isclose(slow.prefill(*mixed), plain.prefill(*mixed))
    for wrong in (-1.0, math.nan, math.inf):
        with pytest.raises(UsageError, match="AI-SERVE-005"):
            EstimatedStepTime(decoder, roof, overhead_seconds=wrong)


def test_a_sequence_takes_the_sum_of_its_steps() -> None:
    """One request alone: its prompt, then steps with a context that grows by one."""
    clock, times = both("qwen2.5-7b")
    result = simulate(workload([512], [200]), Scheduler(), times)
    expected = clock.prefill(512) + sum(
        clock.decode(1, clock.keys_of([512 + k])) for k in range(1, 200)
    )
    assert math.isclose(result.metrics.seconds, expected, rel_tol=1e-9)


def test_graphs_pad_rows_that_cost_compute_only() -> None:
    clock, times = both("qwen2.5-7b")
    padded = times.decode(64, 3, 3000)
    assert clock.decode(3, [3000]) < padded < clock.decode(64, [64 * 1000])


def test_blocks_are_what_the_memory_holds() -> None:
    """Qwen2.5-7B on 80 GB: 57.83 GiB are 132 sequences of 8192 in blocks of 16 tokens."""
    decoder = load_decoder("qwen2.5-7b")
    roof = roof_of("H100", memory_gib=80.0)
    blocks = blocks_beside_weights(decoder, roof, block_size=16)
    assert blocks * 16 // 8192 == 132
    two = blocks_beside_weights(decoder, roof, None, Parallel(tensor=2), block_size=16)
    assert two > 2 * blocks
    with pytest.raises(UsageError, match="AI-SERVE-004"):
        blocks_beside_weights(load_decoder("deepseek-v3"), roof, block_size=16)


def test_long_contexts_fill_the_memory() -> None:
    times = both("qwen2.5-7b")[1]
    traffic = workload([30_000] * 6, [600] * 6)
    cache = CacheRules(blocks=8000, block_size=16)
    result = simulate(traffic, Scheduler(batching="chunked", slots=6, cache=cache), times)
    assert result.cache.peak <= 8000 and result.mean_batch < 5
    assert result.metrics.failed == 0
