"""The plugin beside the stock host in chunks, preemption, sampling, other engines, bfloat16."""

from __future__ import annotations

import pytest

from ascend_infer.vllm_plugin.calls import OURS
from tests.vllm.agreement import Reference, compare
from tests.vllm.conftest import with_plugin
from tests.vllm.test_modes import LAYERS

MODE = "FULL_AND_PIECEWISE"
KERNEL = "paged_decode_attention"


def test_chunks_and_preemption_in_graphs(ours, stock, prompts):
    """Six blocks for sequences of up to three, and 64 tokens per step."""
    chosen = [3, 4, 5, 7]
    found = ours(
        MODE,
        [[prompts[i] for i in chosen], [prompts[i] for i in range(8)]],
        max_num_batched_tokens=64,
        num_gpu_blocks_override=6,
    )
    assert found["tokens"] == [[stock[i] for i in chosen], stock]
    assert found["metrics"]["vllm:num_preemptions"] > 0
    assert found["plugin"]["attention_calls"]["step of ChunkedPrefill"] > LAYERS
    assert found["serving"]["replayed_launches"][KERNEL] > 0
    assert found["serving"]["task_updates"] == 0


def test_an_engine_in_a_process_of_its_own_in_step(ours, stock, prompts):
    variables = {"VLLM_ENABLE_V1_MULTIPROCESSING": "1"}
    found = ours(MODE, [prompts], alone=True, variables=variables, async_scheduling=False)
    assert found["tokens"] == [stock]
    assert set(found["plugin"]["layers"]["attention"]) == {OURS}
    assert found["serving"]["replayed_launches"][KERNEL] == LAYERS * found["serving"]["replays"]


def test_a_seed_gives_the_stock_hosts_tokens_in_any_batch(ours, prompts):
    chosen = prompts[:3]
    rounds = [chosen, [chosen[0]], [chosen[2], chosen[1]]]
    sampling = {"temperature": 1.0, "top_k": 20, "seed": 7}
    found, host = (
        ours("FULL_DECODE_ONLY", rounds, ops=ops, sampling=sampling)["tokens"]
        for ops in ("all", "off")
    )
    assert found == host
    (first, second, third), (alone,), (last, middle) = found
    assert [alone, middle, last] == [first, second, third]


@pytest.mark.parametrize("mode", ["PIECEWISE", "FULL_DECODE_ONLY"])
def test_bfloat16(mode, decode, model, prompts):
    """Rounding is eight times that of float16, and so are the ties."""
    found, host = (
        decode(mode, [prompts], **with_plugin(ops, dtype="bfloat16", sampling={"logprobs": 8}))
        for ops in ("all", "off")
    )
    agreement = compare(found, host, [prompts], Reference(model, "bfloat16"))
    print(agreement)
    assert not agreement.errors
    assert {who for layers in found["plugin"]["layers"].values() for who in layers} == {OURS}
    assert found["serving"]["task_updates"] == 0
