"""Sampling: filters, determinism, independence of requests."""

from __future__ import annotations

import math

import pytest
import torch

from ascend_infer.sampling import Sampler, SamplingParams, filtered_probabilities
from kernels_npu.errors import AscendInferError

LOGITS = torch.tensor([2.0, 1.0, 0.0, -1.0, 1.0])


def test_greedy_takes_the_largest():
    assert Sampler(SamplingParams())(LOGITS) == 0


def test_a_seed_repeats_its_draws_and_another_does_not():
    def draws(seed: int) -> list[int]:
        sampler = Sampler(SamplingParams(temperature=1.0, seed=seed))
        return [sampler(torch.zeros(1000)) for _ in range(20)]

    assert draws(3) == draws(3)
    assert draws(3) != draws(4)


def test_samplers_do_not_share_a_generator():
    one, other = (Sampler(SamplingParams(temperature=1.0)) for _ in range(2))
    alone = Sampler(SamplingParams(temperature=1.0))
    together = [(one(torch.zeros(100)), other(torch.zeros(100)))[0] for _ in range(10)]
    assert together == [alone(torch.zeros(100)) for _ in range(10)]


def test_top_k_keeps_ties():
    kept = filtered_probabilities(LOGITS, SamplingParams(temperature=1.0, top_k=2)) > 0
    assert kept.tolist() == [True, True, False, False, True]


@pytest.mark.parametrize("top_k", [0, 5, 100])
def test_top_k_that_keeps_everything(top_k: int):
    kept = filtered_probabilities(LOGITS, SamplingParams(temperature=1.0, top_k=top_k))
    torch.testing.assert_close(kept, LOGITS.softmax(-1))


def test_top_p_keeps_the_smallest_sufficient_set():
    probabilities = torch.tensor([0.5, 0.3, 0.15, 0.05])
    for top_p, count in ((0.4, 1), (0.49, 1), (0.51, 2), (0.79, 2), (0.81, 3), (0.96, 4), (1.0, 4)):
        params = SamplingParams(temperature=1.0, top_p=top_p)
        kept = filtered_probabilities(probabilities.double().log(), params)
        assert int((kept > 0).sum()) == count, top_p
        assert float(kept.sum()) == pytest.approx(1)


def test_draws_follow_the_distribution():
    params = SamplingParams(temperature=0.5, top_p=0.999999, seed=1)
    sampler, expected = Sampler(params), (LOGITS / 0.5).softmax(-1)
    counts = torch.bincount(torch.tensor([sampler(LOGITS) for _ in range(4000)]), minlength=5)
    torch.testing.assert_close(counts / 4000, expected, atol=0.03, rtol=0)


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_logits_that_are_not_numbers(bad: float, temperature: float):
    logits = torch.full((5,), bad) if bad == -math.inf else LOGITS.clone()
    logits[2] = bad
    with pytest.raises(AscendInferError) as caught:
        Sampler(SamplingParams(temperature=temperature))(logits)
    assert caught.value.code == "AI-MODEL-033" and "bfloat16" in (caught.value.fix or "")


@pytest.mark.parametrize(
    "changes",
    [
        {"temperature": -1.0},
        {"temperature": math.nan},
        {"temperature": math.inf},
        {"top_k": -1},
        {"top_p": 0.0},
        {"top_p": 1.1},
        {"top_p": math.nan},
        {"seed": -1},
        {"seed": 2**63},
    ],
    ids=str,
)
def test_parameters_outside_their_range(changes: dict[str, float]):
    with pytest.raises(AscendInferError) as caught:
        SamplingParams(**changes)  # type: ignore[arg-type]
    assert caught.value.code == "AI-CLI-001" and next(iter(changes)) in caught.value.what
