"""Batches that change between buckets, preemption, chunks, one process, two ranks."""

from __future__ import annotations

import pytest

MODE = "FULL_AND_PIECEWISE"
BLOCK = 128


def test_batches_change_between_buckets_in_both_directions(decode, prompts, expected):
    """Capture sizes are 1, 2, 4; prompts that come again hit the prefix cache."""
    rounds = [[0], [4, 5, 6, 7], [1, 2], list(range(8)), [7]]
    found = decode(MODE, [[prompts[i] for i in r] for r in rounds])
    assert found["tokens"] == [[expected[i] for i in r] for r in rounds]
    # Whole blocks of a prompt that was there in an earlier round, but never its last token.
    seen, cached = set(), 0
    for chosen in rounds:
        cached += sum((len(prompts[i]) - 1) // BLOCK * BLOCK for i in chosen if i in seen)
        seen.update(chosen)
    assert found["metrics"]["vllm:prompt_tokens_cached"] == cached > 0


def test_more_sequences_than_the_largest_captured_size(decode, prompts, expected):
    """Twelve at once with capture sizes up to 8: batches 9 to 12 leave the graphs."""
    chosen = [i % len(prompts) for i in range(12)]
    found = decode(
        "FULL_DECODE_ONLY",
        [[prompts[i] for i in chosen]],
        max_num_seqs=12,
        compilation_config={
            "cudagraph_mode": "FULL_DECODE_ONLY",
            "cudagraph_capture_sizes": [1, 2, 4, 8],
        },
    )
    assert found["tokens"] == [[expected[i] for i in chosen]]
    assert found["start"]["captures"] == 4
    assert found["serving"]["eager_ops"]["npu_fused_infer_attention_score"] > 2 * 2


def test_preempted_sequences_are_computed_again(decode, prompts, expected):
    """A cache of six blocks for sequences that need up to three each."""
    chosen = [3, 4, 5, 7]
    found = decode(
        MODE,
        [[prompts[i] for i in chosen]],
        num_gpu_blocks_override=6,
        enable_prefix_caching=False,
    )
    assert found["tokens"] == [[expected[i] for i in chosen]]
    assert found["metrics"]["vllm:num_preemptions"] > 0


def test_prompts_in_chunks(decode, prompts, expected):
    """With 64 tokens per step there are at least as many steps as there are times 64 tokens."""
    budget, layers = 64, 2
    found = decode("eager", [prompts], max_num_batched_tokens=budget)
    assert found["tokens"] == [expected]
    steps = sum(len(p) for p in prompts) / budget
    assert found["serving"]["eager_ops"]["npu_fused_infer_attention_score"] >= layers * steps
    assert found["serving"]["eager_ops"]["_npu_reshape_and_cache"] >= layers * steps


@pytest.mark.parametrize(
    "options",
    [
        {"variables": {"VLLM_ENABLE_V1_MULTIPROCESSING": "1"}, "async_scheduling": False},
        {"tensor_parallel_size": 2},
    ],
    ids=["engine in a process of its own, in step", "two ranks"],
)
def test_other_ways_to_run_the_engine(options, decode, prompts, expected):
    assert decode(MODE, [prompts], alone=True, **options)["tokens"] == [expected]
