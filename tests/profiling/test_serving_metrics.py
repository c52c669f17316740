"""Serving metrics: the formulas, failed requests, goodput, and inputs that make no sense."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kernels_npu.errors import UsageError
from profiling.serving_metrics import (
    TPOT_FORMULAS,
    Load,
    RequestRecord,
    ServingRun,
    Slo,
    measure,
    tpot,
)

CLOSED = Load(concurrency=8)


def run(*requests, **changes):
    fields = {"load": CLOSED, "start": "arrival", "eos_counted": True}
    return ServingRun(requests=requests, **{**fields, **changes})


@pytest.mark.parametrize(
    ("formula", "milliseconds"), list(zip(TPOT_FORMULAS, (16.79, 16.76, 17.58), strict=True))
)
def test_three_formulas_of_one_request(formula, milliseconds):
    assert round(tpot(420.0, 9000.0, 512, formula), 2) == milliseconds


def test_every_figure_against_a_plain_computation():
    rng = np.random.default_rng(3)
    requests, ttfts, tpots, gaps = [], [], [], []
    for start in np.sort(rng.uniform(0, 5, 40)):
        times = start + 0.1 + np.cumsum(rng.exponential(0.02, int(rng.integers(2, 60))))
        requests.append(RequestRecord(start=start, token_times=tuple(times)))
        ttfts.append(times[0] - start)
        tpots.append((times[-1] - times[0]) / (len(times) - 1))
        gaps += list(np.diff(times))
    slo = Slo(ttft=float(np.median(ttfts)), tpot=float(np.median(tpots)))
    found = measure(run(*requests, slo=slo))
    seconds = max(r.token_times[-1] for r in requests) - requests[0].start
    kept = sum(t <= slo.ttft and p <= slo.tpot for t, p in zip(ttfts, tpots))
    assert 0 < kept < 20
    assert math.isclose(found.ttft.median, np.median(ttfts))
    assert math.isclose(found.tpot.mean, np.mean(tpots))
    assert math.isclose(found.itl.high, max(gaps)) and found.itl.count == len(gaps)
    assert math.isclose(found.requests_per_second, 40 / seconds)
    assert math.isclose(found.tokens_per_second, (len(gaps) + 40) / seconds)
    assert math.isclose(found.goodput, kept / seconds)
    assert math.isclose(found.good_share, kept / 40)
    assert found.ttft.quantiles == {0.9: None, 0.95: None, 0.99: None}  # 40 samples tell none
    assert found.itl.quantiles[0.99] is not None


def test_failed_requests_stay_in_the_denominators():
    good = RequestRecord(start=0.0, token_times=(0.5, 1.0))
    broken = RequestRecord(start=0.0, token_times=(0.4,), finished=2.0, error="HTTP 500")
    silent = RequestRecord(start=0.0, finished=4.0)
    found = measure(run(good, broken, silent, slo=Slo(e2e=3.0)))
    assert (found.requests, found.failed) == (3, 2)
    assert found.errors == {"HTTP 500": 1, "no token": 1}
    assert found.good_share == 1 / 3 and found.goodput == found.requests_per_second == 1 / 4
    assert found.ttft.count == 1


def test_nothing_but_failures_and_single_tokens():
    found = measure(run(RequestRecord(start=1.0, error="refused")))
    assert found.ttft is None and found.requests_per_second == 0.0
    assert found.to_dict()["tpot"] is None
    single = measure(run(RequestRecord(start=0.0, token_times=(2.0,)), slo=Slo(tpot=0.1)))
    assert single.tpot is None and single.good_share == 1.0


def test_the_choices_are_part_of_the_result():
    load = Load(rate=4.0, process="Poisson, seed 1")
    definitions = measure(run(RequestRecord(start=0.0, token_times=(1.0,)), load=load)).definitions
    assert definitions["load"] == "open loop, 4 requests/s, Poisson, seed 1"
    assert definitions["start"] == "arrival" and definitions["eos"] == "counted"


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: RequestRecord(start=1.0, token_times=(0.5,)), "AI-BENCH-002"),
        (lambda: RequestRecord(start=0.0, token_times=(1.0,), finished=0.5), "AI-BENCH-002"),
        (lambda: tpot(1.0, 2.0, 1), "AI-BENCH-003"),
        (lambda: tpot(1.0, 2.0, 9, "E2E"), "AI-BENCH-003"),
        (lambda: Load(), "AI-BENCH-004"),
        (lambda: Load(concurrency=1, rate=1.0), "AI-BENCH-004"),
        (lambda: Load(concurrency=0), "AI-BENCH-004"),
        (lambda: Load(rate=math.nan), "AI-BENCH-004"),
        (lambda: run(), "AI-BENCH-005"),
        (lambda: run(RequestRecord(start=0.0), start="somewhere"), "AI-BENCH-005"),
        (lambda: run(RequestRecord(start=0.0), tpot_formula="?"), "AI-BENCH-005"),
    ],
)
def test_inputs_without_a_meaning(make, code):
    with pytest.raises(UsageError) as caught:
        make()
    assert caught.value.code == code and caught.value.fix
