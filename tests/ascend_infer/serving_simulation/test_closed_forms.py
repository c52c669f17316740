"""Schedules whose figures are known by formula, and the textbook's setting."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ascend_infer.serving_simulation import (
    AtOnce,
    CacheRules,
    ClosedLoop,
    GivenStepTime,
    Poisson,
    Scheduler,
    ServingResult,
    Slo,
    Traffic,
    Workload,
    parse_lengths,
    simulate,
)
from ascend_infer.serving_simulation.presets import PRESETS
from tests.ascend_infer.serving_simulation.cases import workload

STEP = GivenStepTime(step=0.008, per_prompt_token=12e-6)


def sampled(requests: int, **fields: object) -> Workload:
    base = {
        "arrivals": AtOnce(),
        "prompt": parse_lengths("100"),
        "output": parse_lengths("50"),
        "seed": 1,
    }
    return Traffic(requests=requests, **(base | fields)).sample()  # type: ignore[arg-type]


@pytest.mark.parametrize(("load", "output"), [(0.3, 1), (0.6, 5), (0.8, 1)])
def test_the_mean_wait_of_one_server(load: float, output: int) -> None:
    """M/D/1: the mean wait is load * service / (2 * (1 - load)), by Pollaczek and Khinchine."""
    service = 100 * 12e-6 + (output - 1) * 0.008
    traffic = sampled(
        24_000,
        arrivals=Poisson(rate=load / service),
        output=parse_lengths(str(output)),
    )
    result = simulate(traffic, Scheduler(slots=1), STEP)
    waits = result.first_token_waits - 100 * 12e-6
    expected = load * service / (2 * (1 - load))
    # Waits of a busy period are correlated: batch means give the spread of the mean.
    means = waits.reshape(40, -1).mean(axis=1)
    error = means.std(ddof=1) / math.sqrt(len(means))
    assert abs(waits.mean() - expected) < 4 * error and error < 0.15 * expected
    assert math.isclose(result.busy, load, rel_tol=0.02)


@pytest.mark.parametrize("slots", [1, 8, 64])
def test_a_full_batch_gives_a_token_per_slot_and_step(slots: int) -> None:
    """Equal lengths, prompts for free: slots / step tokens per second, all slots in use."""
    free = GivenStepTime(step=0.008)
    result = simulate(sampled(slots * 20), Scheduler(slots=slots), free)
    assert result.slot_utilisation == 1 and result.steps == 20 * 49
    # The first token of every request comes with its prompt and takes no step.
    assert math.isclose(result.metrics.seconds, 20 * 49 * 0.008)
    assert math.isclose(result.metrics.tokens_per_second, slots / 0.008 * 50 / 49)


@pytest.mark.parametrize(("slots", "seed"), [(1, 0), (4, 1), (8, 2), (7, 3)])
def test_static_batching_waits_for_the_longest(slots: int, seed: int) -> None:
    """The sum over batches of all prompts' time and the longest output's steps."""
    traffic = sampled(50, output=parse_lengths("discrete:16,64,256,1024"), seed=seed)
    result = simulate(traffic, Scheduler(batching="static", slots=slots), STEP)
    batches = [traffic.output_tokens[i : i + slots] for i in range(0, 50, slots)]
    seconds = sum(len(b) * 100 * 12e-6 + (b.max() - 1) * 0.008 for b in batches)
    assert math.isclose(result.metrics.seconds, seconds, rel_tol=1e-12)
    assert result.steps == sum(int(b.max()) - 1 for b in batches)
    tokens = traffic.output_tokens.sum() - 50
    assert math.isclose(result.slot_utilisation, tokens / (slots * result.steps))


def test_continuous_batching_of_long_and_short() -> None:
    """Two slots, outputs of 1 + 10 and nine times 1 + 1 steps: the short ones share one slot."""
    free = GivenStepTime(step=1.0)
    traffic = workload([1] * 10, [11] + [2] * 9)
    assert simulate(traffic, Scheduler(slots=2), free).metrics.seconds == 10
    static = simulate(traffic, Scheduler(slots=2, batching="static"), free)
    assert static.metrics.seconds == 10 + 4


@pytest.mark.parametrize("batching", ["continuous", "chunked", "static"])
def test_littles_law(batching: str) -> None:
    """Sequences that decode, over time, are arrivals per second times their time in decoding."""
    traffic = sampled(3000, arrivals=Poisson(rate=15.0), output=parse_lengths("geometric:60"))
    free = GivenStepTime(step=0.008, per_context_token=1e-7)
    result = simulate(traffic, Scheduler(slots=16, batching=batching), free)
    timeline = result.timeline
    spans = timeline.stretch_ends - timeline.column("start")
    mean_number = (spans * timeline.column("live")).sum() / result.metrics.seconds
    stays = [timeline.token_times(i) for i in range(3000)]
    mean_stay = np.mean([times[-1] - times[0] for times in stays])
    assert math.isclose(mean_number, 3000 / result.metrics.seconds * mean_stay, rel_tol=1e-9)


def test_a_closed_loop_is_never_without_its_clients() -> None:
    """Interactive response time law: clients = throughput * (response + think)."""
    traffic = sampled(
        4000, arrivals=ClosedLoop(concurrency=12, think=0.5), output=parse_lengths("geometric:60")
    )
    result = simulate(traffic, Scheduler(slots=8), STEP)
    metrics = result.metrics
    assert metrics.e2e is not None
    clients = metrics.requests_per_second * (metrics.e2e.mean + 0.5)
    assert math.isclose(clients, 12, rel_tol=0.02)


def test_steps_grow_with_the_context() -> None:
    """One sequence: the k-th of its steps attends to prompt + k tokens."""
    growing = GivenStepTime(step=0.01, per_context_token=1e-5)
    result = simulate(workload([100], [51]), Scheduler(), growing)
    times = result.timeline.token_times(0)
    assert np.allclose(np.diff(times), 0.01 + 1e-5 * (100 + np.arange(1, 51)))


def test_a_chunked_prompt_takes_as_many_steps_as_the_budget_says() -> None:
    """A long output decodes while a prompt of 1000 tokens comes in 100 chunks of 10."""
    traffic = workload([1, 1000], [200, 1], [0.0, 0.5])
    result = simulate(
        traffic, Scheduler(batching="chunked", slots=2, token_budget=11), GivenStepTime(step=0.1)
    )
    first = result.timeline.token_times(1)[0]
    assert math.isclose(first, 0.5 + 100 * 0.1)
    # Alone, the same prompt stops decoding for its whole time instead.
    alone = simulate(traffic, Scheduler(slots=2), GivenStepTime(step=0.1, per_prompt_token=0.01))
    assert math.isclose(np.diff(alone.timeline.token_times(0)).max(), 10 + 0.1)


def test_a_shared_prefix_is_computed_once() -> None:
    """Ten prompts of 64 + 16 tokens, one after the other: 9 of them find 4 blocks of 16."""
    traffic = workload([80] * 10, [1] * 10, prefixes=[0] * 10, prefix_tokens=64)
    step = GivenStepTime(step=1.0, per_prompt_token=1.0)
    result = simulate(traffic, Scheduler(slots=1), step)
    assert result.metrics.seconds == 80 + 9 * 16
    assert result.cache.hit_tokens == 9 * 64 and result.cache.hit_share == 9 * 64 / 800
    off = simulate(traffic, Scheduler(slots=1, cache=CacheRules(share_prefixes=False)), step)
    assert off.metrics.seconds == 800 and off.cache.hit_tokens == 0


def test_a_full_cache_preempts_and_recomputes() -> None:
    """Two sequences grow in four blocks of four: the second makes room and starts anew."""
    traffic = workload([4, 4], [9, 9])
    tight = CacheRules(blocks=4, block_size=4)
    result = simulate(traffic, Scheduler(slots=2, cache=tight), GivenStepTime(step=1.0))
    # After four steps each holds two full blocks; the fifth needs one more for each.
    assert result.cache.preemptions == 1 and result.cache.lost_tokens == 8
    assert result.cache.peak == 4
    first, second = (result.timeline.token_times(i) for i in range(2))
    assert first.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    assert second.tolist() == [0, 1, 2, 3, 4, 8, 9, 10, 11]


def preset(name: str, **changes: float) -> dict[str, ServingResult]:
    options = PRESETS[name] | {"slots": PRESETS[name]["slots"][0]} | changes
    traffic = sampled(
        options["requests"],
        prompt=parse_lengths(options["prompt"]),
        output=parse_lengths(options["output"]),
        seed=int(changes.get("seed", 0)),
    )
    step = GivenStepTime(
        step=options["step_ms"] / 1e3, per_prompt_token=options["prefill_us"] / 1e6
    )
    return {
        batching: simulate(traffic, Scheduler(batching=batching, slots=options["slots"]), step)
        for batching in ("static", "continuous")
    }


@pytest.mark.parametrize("slots", [2, 8, 16])
@pytest.mark.parametrize("step_ms", [1.0, 8.0, 40.0])
@pytest.mark.parametrize("seed", range(4))
def test_the_textbook_setting_always_points_the_same_way(
    slots: int, step_ms: float, seed: int
) -> None:
    """Other slots, steps and seeds give other numbers and the same direction."""
    runs = preset("textbook", slots=slots, step_ms=step_ms, seed=seed)
    static, continuous = runs["static"], runs["continuous"]
    assert continuous.metrics.seconds < static.metrics.seconds
    assert continuous.slot_utilisation > static.slot_utilisation
    assert continuous.metrics.tokens_per_second > static.metrics.tokens_per_second


def test_goodput_counts_requests_within_the_limits() -> None:
    traffic = workload([1, 1, 1], [11, 11, 11])
    result = simulate(
        traffic, Scheduler(slots=1), GivenStepTime(step=1.0), slo=Slo(ttft=15.0, tpot=1.0)
    )
    assert result.metrics.good_share == 2 / 3
    assert math.isclose(result.metrics.goodput, 2 / 30)


def test_use_over_time_is_that_of_the_moment() -> None:
    """One sequence of 16 + 32 tokens in blocks of 16, after five seconds of nothing."""
    traffic = workload([16, 16], [33, 33], [0.0, 37.0])
    result = simulate(traffic, Scheduler(), GivenStepTime(step=1.0))
    sample = result.over_time(70)
    assert sample["seconds"] == list(range(70))
    assert sample["decoding"] == [1] * 32 + [0] * 5 + [1] * 32 + [0]
    growing = [1 + k / 16 for k in range(33)]  # one block, and one more every 16 steps
    assert np.allclose(sample["kv_blocks"], growing + [0] * 4 + growing)
