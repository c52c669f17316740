"""Workloads and schedulers for the tests of the simulation."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from ascend_infer.serving_simulation import CacheRules, Scheduler, Workload
from profiling.serving_metrics import Load

#: Times in the tests are multiples of it, so that sums are exact in any order and ties are ties.
TICK = 2.0**-20


def workload(
    prompts: list[int],
    outputs: list[int],
    arrivals: list[float] | None = None,
    *,
    prefixes: list[int] | None = None,
    prefix_tokens: int = 0,
    concurrency: int | None = None,
    think: float = 0.0,
) -> Workload:
    """Requests by their numbers; all at 0 unless given, or a closed loop."""
    count = len(prompts)
    shared = np.array(prefixes or [-1] * count, dtype=np.int64)
    closed = concurrency is not None
    return Workload(
        prompt_tokens=np.array(prompts, dtype=np.int64),
        output_tokens=np.array(outputs, dtype=np.int64),
        prefixes=shared,
        prefix_tokens=np.where(shared >= 0, prefix_tokens, 0),
        arrivals=None if closed else np.array(arrivals or [0.0] * count, dtype=np.float64),
        load=Load(concurrency=concurrency) if closed else Load(rate=1.0, process="test"),
        think=think,
    )


@st.composite
def workloads(draw: st.DrawFn, *, at_once: bool = False) -> Workload:
    """Up to 25 requests: idle times and crowds, long and short, some with shared prefixes."""
    count = draw(st.integers(1, 25))
    random = np.random.default_rng(draw(st.integers(0, 9999)))
    prefix = draw(st.integers(1, 40))
    shared = random.integers(-1, 2, count)
    own = random.integers(1, 60, count)
    gap = draw(st.sampled_from([0.01, 0.1, 1.0]))
    arrivals = np.cumsum(random.exponential(gap, count) * random.integers(0, 2, count))
    arrivals = np.round(arrivals / TICK) * TICK
    closed = draw(st.booleans()) and not at_once
    return Workload(
        prompt_tokens=own + np.where(shared >= 0, prefix, 0),
        output_tokens=random.integers(1, draw(st.sampled_from([2, 8, 60])), count),
        prefixes=shared,
        prefix_tokens=np.where(shared >= 0, prefix, 0),
        arrivals=None if closed else np.zeros(count) if at_once else arrivals,
        load=Load(concurrency=draw(st.integers(1, 9))) if closed else Load(rate=1.0),
        think=draw(st.sampled_from([0.0, 2.0**-5, 2.0**-5 + 3 * TICK])),
    )


@st.composite
def schedulers(draw: st.DrawFn) -> Scheduler:
    """All batchings; caches from too small for some requests to without a limit."""
    slots = draw(st.integers(1, 9))
    return Scheduler(
        batching=draw(st.sampled_from(["static", "continuous", "chunked"])),
        slots=slots,
        token_budget=slots + draw(st.sampled_from([1, 5, 64, 4096])),
        max_waiting=draw(st.sampled_from([None, None, 0, 3])),
        cache=CacheRules(
            blocks=draw(st.sampled_from([None, 6, 12, 30, 90])),
            block_size=draw(st.sampled_from([1, 4, 16])),
            watermark=draw(st.sampled_from([0.0, 0.1])),
            reserve_output=draw(st.booleans()),
            share_prefixes=draw(st.booleans()),
        ),
    )
