"""Our kernels in plain vLLM: the host's tokens, each step of a sequence attended by our kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from ascend_infer.verification.vllm.compare import compare, describe
from ascend_infer.verification.vllm.engine import Decoded
from ascend_infer.verification.vllm.rounds import LENGTHS
from ascend_infer.vllm_plugin.calls import OURS
from tests.vllm_cpu.conftest import BATCH, LAYERS, NEW_TOKENS

APART = "rms_norm,rotary_embedding,attention"
KERNEL = "paged_decode_attention (sim)"
#: Each kernel runs once before its layer serves.
TRIAL = 1


def require_same(found: Decoded, stock: Decoded, rounds: Sequence[Sequence[int]]) -> None:
    """`rounds`: the prompts of each of the rounds of `found`, which `stock` decoded by itself."""
    picked = {
        name: [[getattr(stock, name)[prompt][0] for prompt in chosen] for chosen in rounds]
        for name in ("tokens", "scores")
    }
    compared = compare(replace(stock, **picked), found)
    assert compared.passed, describe(compared)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_each_step_is_decoded_by_our_kernel(
    decode: Callable[..., Decoded], stock: Callable[[str], Decoded], prompts: list, dtype: str
) -> None:
    expected = stock(dtype)
    assert expected.plugin["layers"] == expected.plugin["launches"] == {}
    every = list(range(len(prompts)))
    found = decode(
        [*([prompt] for prompt in prompts), prompts],
        ops="all", dtype=dtype, enable_prefix_caching=False,
    )  # fmt: skip
    require_same(found, expected, [*([i] for i in every), every])
    plugin = found.plugin
    norms = 2 * LAYERS + 1 + 2 * LAYERS  # two of a layer and the last; two more of heads
    assert plugin["layers"] == {
        "rms_norm": {OURS: norms},
        "rotary_embedding": {OURS: 1},  # which vLLM shares
        "qk_norm_rope": {OURS: LAYERS},
        "attention": {OURS: LAYERS},
    }
    # A prompt gives its first token, each step one more; a prompt of one token is such a step too.
    alone = len(LENGTHS) * (NEW_TOKENS - 1) + LENGTHS.count(1)
    together = len(LENGTHS) // BATCH * (NEW_TOKENS - 1) + LENGTHS[:BATCH].count(1)
    attended = LAYERS * (alone + together)
    assert plugin["attention_calls"].pop(OURS) == attended
    (prompted,) = plugin["attention_calls"].values()
    assert prompted == LAYERS * (len(LENGTHS) - LENGTHS.count(1) + len(LENGTHS) // BATCH)
    launches = plugin["launches"]
    assert launches[KERNEL] == attended + TRIAL
    steps = len(LENGTHS) * NEW_TOKENS + len(LENGTHS) // BATCH * NEW_TOKENS
    assert launches["reshape_and_cache (sim)"] == LAYERS * steps + TRIAL
    assert launches["split_qkv_rmsnorm_rope (sim)"] == LAYERS * steps + TRIAL
    assert launches["fused_add_rms_norm (sim)"] >= 2 * LAYERS * steps


@pytest.mark.parametrize("ops", ["all", APART])
def test_compiled_and_in_processes_of_its_own(
    decode: Callable[..., Decoded], stock: Callable[[str], Decoded], prompts: list, ops: str
) -> None:
    """As vLLM runs when it is not told otherwise."""
    variables = {"VLLM_ENABLE_V1_MULTIPROCESSING": "1"}
    found = decode([prompts], ops=ops, way="compiled", variables=variables)
    require_same(found, stock("float16"), [range(len(prompts))])
    steps = len(LENGTHS) // BATCH * NEW_TOKENS
    launches = found.plugin["launches"]
    assert launches[KERNEL] >= LAYERS * len(LENGTHS) // BATCH * (NEW_TOKENS - 1)
    rotation = "rotary_embedding" if ops == APART else "split_qkv_rmsnorm_rope"
    assert launches[f"{rotation} (sim)"] > LAYERS * steps
    assert launches["fused_add_rms_norm (sim)"] > 2 * LAYERS * steps
    assert launches["rms_norm (sim)"] > (2 * LAYERS if ops == APART else 1) * steps


def test_batches_that_grow_and_shrink_and_hit_the_prefix_cache(
    decode: Callable[..., Decoded], stock: Callable[[str], Decoded], prompts: list
) -> None:
    """With a budget of 64 tokens long prompts come in pieces, beside sequences that decode."""
    rounds = [[0], [4, 5, 6, 7], [1, 2], list(range(8)), [7]]
    found = decode(
        [[prompts[i] for i in chosen] for chosen in rounds],
        ops=APART,
        max_num_batched_tokens=64,
        enable_chunked_prefill=True,
    )
    require_same(found, stock("float16"), rounds)
    assert found.metrics["vllm:prompt_tokens_cached"] >= 2 * 128
    assert set(found.plugin["layers"]["attention"]) == {OURS}
    assert found.plugin["launches"][KERNEL] > LAYERS * len(rounds) * (NEW_TOKENS - 1)


def test_preempted_sequences_are_computed_again(
    decode: Callable[..., Decoded], stock: Callable[[str], Decoded], prompts: list
) -> None:
    """A cache of six blocks for sequences that need up to three each."""
    chosen = [3, 4, 5, 7]
    found = decode(
        [[prompts[i] for i in chosen]],
        ops="attention",
        num_gpu_blocks_override=6,
        enable_prefix_caching=False,
    )
    require_same(found, stock("float16"), [chosen])
    assert found.metrics["vllm:num_preemptions"] > 0
    assert set(found.plugin["layers"]) == {"attention"}
