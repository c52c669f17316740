"""Comparing two engines: rounding is told from error by the size of what moved."""

from __future__ import annotations

import math
import random

import pytest
import torch

from ascend_infer.verification.vllm.compare import compare, describe, tolerance
from ascend_infer.verification.vllm.engine import Decoded
from ascend_infer.verification.vllm.rounds import random_prompts, rounds

LAYERS, VOCABULARY, STEPS = 8, 50, 6


def decoded(logits, *, dtype="float16", layers=LAYERS):
    """A run whose sequences chose the largest of `logits` `[rounds][prompts][steps][tokens]`."""
    scores = [
        [[{str(i): float(x) for i, x in enumerate(step)} for step in prompt] for prompt in batch]
        for batch in logits
    ]
    tokens = [
        [[max(range(len(step)), key=step.__getitem__) for step in prompt] for prompt in batch]
        for batch in logits
    ]
    return Decoded(
        tokens=tokens,
        scores=scores,
        model={"dtype": dtype, "layers": layers, "device": "npu"},
        start=None,
        serving=None,
        plugin={},
        metrics={},
        wall_s={},
    )


def random_logits(seed, count=4):
    source = random.Random(seed)
    return [
        [
            [[source.gauss(0, 4) for _ in range(VOCABULARY)] for _ in range(STEPS)]
            for _ in range(count)
        ]
    ]


def rounded(logits, dtype):
    return torch.tensor(logits).to(getattr(torch, dtype)).tolist()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("seed", range(20))
def test_two_roundings_of_the_same_logits_agree(dtype, seed):
    logits = random_logits(seed)
    found = compare(decoded(logits, dtype=dtype), decoded(rounded(logits, dtype), dtype=dtype))
    assert found.passed and found.tokens > 0 and found.worst_ulps <= 1
    assert all(d.tie for d in found.divergences)


def test_the_tolerance_grows_as_a_random_walk_of_two_steps_per_layer():
    assert tolerance(8) == 16.0
    assert tolerance(4 * 30) == pytest.approx(2 * tolerance(30))


def test_logits_of_no_common_token_are_not_taken_for_equal():
    """Each side reports the likeliest tokens only, and might report none of the other's."""
    logits = random_logits(0)
    left, right = decoded(logits), decoded(logits)
    for batch in right.scores:
        for prompt in batch:
            prompt[:] = [{f"{token}0000": x for token, x in step.items()} for step in prompt]
    found = compare(left, right)
    assert not found.divergences and found.worst_ulps == math.inf and not found.passed


@pytest.mark.parametrize("seed", range(20))
def test_what_moves_a_gap_by_more_than_rounding_fails_though_the_tokens_are_equal(seed):
    logits = rounded(random_logits(seed), "float16")
    largest = max(map(abs, logits[0][0][0]))
    ulp = 2.0 ** (math.floor(math.log2(largest)) - 10)
    moved = [[[list(step) for step in prompt] for prompt in batch] for batch in logits]
    lowest = min(range(VOCABULARY), key=moved[0][0][0].__getitem__)
    for ulps, passes in ((0.9 * tolerance(LAYERS), True), (1.1 * tolerance(LAYERS), False)):
        moved[0][0][0][lowest] = logits[0][0][0][lowest] - ulps * ulp
        found = compare(decoded(logits), decoded(moved))
        assert not found.divergences
        # The moved logit may be the largest in size, which makes the unit larger, not smaller.
        assert found.passed is passes and found.worst_ulps == pytest.approx(ulps, rel=1e-3)


def test_another_token_is_a_tie_only_within_the_tolerance():
    step = [0.0] * VOCABULARY
    step[3], step[4] = 10.0, 10.0 - 2**-7  # one ulp of float16 at 10
    other = list(step)
    other[4] = 10.0 + 2**-7
    tie = compare(decoded([[[step]]]), decoded([[[other]]]))
    assert tie.passed and tie.divergences[0].tie and tie.divergences[0].gap == 1
    assert "choices that rounding explains: 1" in describe(tie)
    step[4] = 9.0
    wrong = compare(decoded([[[step]]]), decoded([[[other]]]))
    assert not wrong.passed and wrong.wrong[0].gap == 128
    assert "token 4 instead of 3, which the host prefers by 128 ulps" in describe(wrong)
    assert compare(decoded([[[step]]]), decoded([[[other]]]), limit=200).passed


def test_tokens_after_a_divergence_are_not_compared():
    tied, other = [[5.0, 5.0]], [[5.0, 5.0 + 2**-8]]
    rest = [[[0.0, 9.0]]]
    found = compare(decoded([[tied + rest[0] * 3]]), decoded([[other + [[9.0, 0.0]] * 3]]))
    assert found.tokens == 1 and found.passed


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_logits_that_are_no_numbers_fail(bad):
    good = [1.0, 2.0, 3.0]
    broken = [1.0, bad, 3.0]
    for left, right in ((good, broken), (broken, good)):
        assert not compare(decoded([[[left]]]), decoded([[[right]]])).passed


def test_a_shorter_sequence_and_foreign_tokens_fail():
    logits = random_logits(0)
    shorter = [[prompt[:-1] for prompt in logits[0]]]
    assert not compare(decoded(logits), decoded(shorter)).passed
    found = decoded([[[[1.0, 2.0]]]])
    foreign = Decoded(**{**vars(found), "tokens": [[[7]]], "scores": [[[{"7": 1.0, "8": 0.0}]]]})
    compared = compare(found, foreign)
    assert not compared.passed and compared.wrong[0].gap is None
    with pytest.raises(ValueError, match="same rounds"):
        compare(decoded(logits), decoded(random_logits(0, count=5)))


def test_nothing_compared_is_not_a_pass():
    assert not compare(decoded([[]]), decoded([[]])).passed


@pytest.mark.parametrize("batch", [1, 2, 3, 4, 7, 16])
def test_batches_grow_to_the_largest_and_shrink(batch):
    prompts = random_prompts([1, 5, 17], VOCABULARY)
    assert [len(p) for p in prompts] == [1, 5, 17]
    assert prompts == random_prompts([1, 5, 17], VOCABULARY)
    assert all(0 <= token < VOCABULARY for prompt in prompts for token in prompt)
    planned = rounds(prompts, batch)
    assert planned[0] == prompts
    for first, chosen in enumerate(planned[1:]):  # each begins one prompt further
        assert chosen == [prompts[(first + i) % 3] for i in range(len(chosen))]
    sizes = [len(batch) for batch in planned[1:]]
    peak = sizes.index(batch)
    assert sizes[: peak + 1] == sorted(set(sizes)) and sizes[peak:] == sorted(set(sizes))[::-1]
    assert all(prompt in prompts for batch in planned for prompt in batch)
