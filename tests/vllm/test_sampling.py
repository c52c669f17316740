"""Sampling that is not greedy: the operator that filters, penalties, seeds."""

from __future__ import annotations

MODE = "FULL_DECODE_ONLY"


def test_the_best_token_of_one_is_the_greedy_one(decode, prompts, expected):
    found = decode(MODE, [prompts], sampling={"temperature": 0.7, "top_k": 1, "top_p": 0.9})
    assert found["tokens"] == [expected]
    assert found["serving"]["eager_ops"]["npu_top_k_top_p"] > 0


def test_a_seed_gives_the_same_tokens_in_any_batch(decode, prompts):
    """However a prompt is cut, too: the host takes back what it draws for a part of it."""
    chosen = prompts[:3]
    sampling = {"temperature": 1.0, "top_k": 20, "seed": 7}
    rounds = [chosen, [chosen[0]], [chosen[2], chosen[1]]]
    found = decode(MODE, rounds, sampling=sampling, max_num_batched_tokens=8)
    (first, second, third), (alone,), (last, middle) = found["tokens"]
    assert [alone, middle, last] == [first, second, third]
    assert first != second != third
