"""The engine against a simulation step by step, and what holds for every schedule."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_infer.serving_simulation import GivenStepTime, Scheduler, Workload, simulate
from ascend_infer.serving_simulation.engine import Engine
from ascend_infer.serving_simulation.timeline import end_of, steps_until
from tests.ascend_infer.serving_simulation.cases import TICK, schedulers, workloads
from tests.ascend_infer.serving_simulation.step_by_step import Stepper

STEP_TIMES = st.builds(
    GivenStepTime,
    step=st.sampled_from([2.0**-10, 2.0**-7]),
    per_context_token=st.sampled_from([0.0, TICK]),
    per_prompt_token=st.sampled_from([0.0, 16 * TICK, 2.0**-10]),
)


def run(workload: Workload, scheduler: Scheduler, step_time: GivenStepTime) -> Engine:
    engine = Engine(workload, scheduler, step_time)
    engine.run()
    return engine


@settings(max_examples=150)
@given(workloads(), schedulers(), STEP_TIMES)
def test_events_are_what_single_steps_come_to(
    workload: Workload, scheduler: Scheduler, step_time: GivenStepTime
) -> None:
    """Every token of every request at the same time, the same requests refused and preempted."""
    engine = run(workload, scheduler, step_time)
    slow = Stepper(workload, scheduler, step_time)
    slow.run()
    timeline = engine.timeline
    assert set(timeline.refused) == slow.refused
    assert engine.preemptions == slow.preemptions
    assert (engine.cache.hit_tokens, engine.cache.lost_tokens) == (slow.hits, slow.lost)
    assert timeline.column("steps").sum() == slow.steps
    for index, times in slow.times.items():
        assert timeline.token_times(index).tolist() == times, index
    assert timeline.cache_use()[1].max(initial=0) == slow.most_blocks


@settings(max_examples=100)
@given(workloads(), schedulers(), STEP_TIMES)
def test_what_holds_for_every_schedule(
    workload: Workload, scheduler: Scheduler, step_time: GivenStepTime
) -> None:
    result = simulate(workload, scheduler, step_time)
    timeline, metrics = result.timeline, result.metrics
    count = len(workload.prompt_tokens)
    # Every request gives exactly its tokens or is refused, and none is lost.
    assert metrics.requests == count == len(timeline.refused) + len(timeline.stints)
    tokens = [len(timeline.token_times(i)) for i in range(count)]
    expected = [0 if i in timeline.refused else n for i, n in enumerate(workload.output_tokens)]
    assert tokens == expected and metrics.output_tokens == sum(expected)
    # No more sequences than slots, no more blocks than there are.
    live, rows = timeline.column("live"), timeline.column("rows")
    assert (live <= rows).all() and (rows <= scheduler.slots).all() and (live >= 1).all()
    times, blocks = timeline.cache_use()
    assert (np.diff(times) >= 0).all() and (blocks >= 0).all()
    assert scheduler.cache.blocks is None or (blocks <= scheduler.cache.blocks).all()
    if scheduler.cache.reserve_output:
        assert result.cache.preemptions == 0
    sample = result.over_time(17)
    assert all(0 <= n <= result.cache.peak for n in sample["kv_blocks"])
    assert all(0 <= n <= scheduler.slots for n in sample["decoding"])
    # Tokens of decode steps plus one per stay are all tokens.
    stays = sum(map(len, timeline.stints.values()))
    assert (live * timeline.column("steps")).sum() + stays == sum(expected)
    assert 0 <= result.slot_utilisation <= 1 and 0 <= result.busy <= 1 + 1e-9
    assert 0 <= result.cache.hit_share < 1 and result.cache.mean <= result.cache.peak + 1e-9


@given(workloads(), schedulers(), STEP_TIMES)
def test_the_same_input_gives_the_same_figures(
    workload: Workload, scheduler: Scheduler, step_time: GivenStepTime
) -> None:
    first, second = (simulate(workload, scheduler, step_time) for _ in range(2))
    assert first.to_dict() == second.to_dict()
    assert first.timeline.stretches == second.timeline.stretches


@given(workloads(at_once=True), schedulers(), st.floats(1.01, 50))
def test_a_schedule_without_a_clock_scales_with_the_step(
    workload: Workload, scheduler: Scheduler, factor: float
) -> None:
    """All requests there at 0: order and batches do not depend on time, so all times scale."""
    fast = simulate(workload, scheduler, GivenStepTime(step=0.01, per_prompt_token=1e-5))
    slow = simulate(
        workload, scheduler, GivenStepTime(step=0.01 * factor, per_prompt_token=1e-5 * factor)
    )
    assert np.isclose(slow.metrics.seconds, factor * fast.metrics.seconds)
    assert slow.steps == fast.steps and slow.cache == dataclasses.replace(
        fast.cache, mean=slow.cache.mean
    )


@given(workloads(at_once=True), schedulers(), st.floats(0.001, 1), st.floats(0.001, 1))
def test_no_request_gains_from_slower_decoding(
    workload: Workload, scheduler: Scheduler, one: float, other: float
) -> None:
    """All there at 0: the same steps, each at least as long."""
    runs = [
        simulate(workload, scheduler, GivenStepTime(step=step, per_prompt_token=1e-5)).timeline
        for step in sorted((one, other))
    ]
    for index in runs[0].stints:
        assert (runs[0].token_times(index) <= runs[1].token_times(index) + 1e-9).all()


@given(
    st.floats(0, 1e5),
    st.floats(1e-6, 10),
    st.one_of(st.just(0.0), st.floats(1e-9, 1e-3)),
    st.integers(1, 100_000),
    st.floats(0, 1),
)
def test_steps_until_is_the_first_that_is_late_enough(
    start: float, first: float, longer: float, most: int, share: float
) -> None:
    time = start + share * 1.1 * (end_of(start, first, longer, most) - start)
    steps = steps_until(time, start, first, longer, most)
    assert 1 <= steps <= most
    assert steps == most or end_of(start, first, longer, steps) >= time
    assert steps == 1 or end_of(start, first, longer, steps - 1) < time
