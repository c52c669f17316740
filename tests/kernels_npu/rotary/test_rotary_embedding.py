"""rotary_embedding on the simulated NPU, in both layouts of pairs."""

from __future__ import annotations

import pytest
import torch

from kernels_npu.errors import UnsupportedError, UsageError
from kernels_npu.rotary.head_blocks import head_block
from kernels_npu.rotary.rotary_embedding import SPEC, check
from kernels_npu.sim.config import configure

CASES = {
    "smollm2": {"tokens": 3, "q_heads": 9, "kv_heads": 3, "head_dim": 64},
    "more-tokens-than-cores": {"tokens": 51, "q_heads": 4, "kv_heads": 4, "head_dim": 64},
    "partial": {"tokens": 2, "q_heads": 13, "kv_heads": 1, "head_dim": 128, "rotary_dim": 32},
    "head-dim-256": {"tokens": 2, "q_heads": 8, "kv_heads": 2, "head_dim": 256},
    "several-tiles-of-heads": {"tokens": 2, "q_heads": 96, "kv_heads": 96, "head_dim": 256},
    "int32-positions-float32-cache": {
        "tokens": 5,
        "q_heads": 5,
        "kv_heads": 1,
        "head_dim": 96,
        "position_dtype": torch.int32,
        "cache_dtype": torch.float32,
    },
}


@pytest.mark.parametrize("interleaved", [False, True], ids=["halves", "pairs"])
@pytest.mark.parametrize("case", CASES)
def test_matches_the_reference_and_moves_each_element_once(
    case, interleaved, dtype, run, assert_traffic
):
    dims = {**CASES[case], "interleaved": interleaved}
    assert_traffic(run(SPEC, dims, dtype), SPEC, dims, dtype)


def test_a_partial_dim_of_16_rotates_pairs(run):
    dims = {"tokens": 2, "q_heads": 3, "kv_heads": 1, "head_dim": 64, "rotary_dim": 16}
    outcome = run(SPEC, {**dims, "interleaved": True}, torch.float16)
    assert outcome.launches == 1


@pytest.mark.parametrize("interleaved", [False, True], ids=["halves", "pairs"])
def test_same_bits_under_every_schedule(interleaved, run, schedule):
    dims = {**CASES["more-tokens-than-cores"], "interleaved": interleaved}
    with configure(schedule="eager"):
        expected = run(SPEC, dims, torch.float16)
    outcome = run(SPEC, dims, torch.float16)
    assert torch.equal(outcome.tensors["query"], expected.tensors["query"])
    assert torch.equal(outcome.tensors["key"], expected.tensors["key"])


def test_position_0_changes_nothing(npu):
    from kernels_npu import ops

    dims = CASES["smollm2"]
    query = torch.randn(dims["tokens"], 9, 64, dtype=torch.float16)
    key = torch.randn(dims["tokens"], 3, 64, dtype=torch.float16)
    cache = torch.cat((torch.ones(4, 32), torch.zeros(4, 32)), dim=-1).half()
    q, k = query.to(npu), key.to(npu)
    ops.rotary_embedding(torch.zeros(3, dtype=torch.int64, device=npu), q, k, cache.to(npu))
    assert torch.equal(q.cpu(), query)
    assert torch.equal(k.cpu(), key)


def test_host_positions_are_refused(npu):
    from kernels_npu import ops

    heads = torch.zeros(2, 1, 64, dtype=torch.float16, device=npu)
    cache = torch.zeros(4, 64, dtype=torch.float16, device=npu)
    with pytest.raises(UsageError) as caught:
        ops.rotary_embedding(torch.zeros(2, dtype=torch.int64), heads, heads.clone(), cache)
    assert caught.value.code == "AI-OP-002"
    assert "positions.to('npu:0')" in caught.value.fix


def test_no_tokens_launch_nothing(run):
    assert run(SPEC, {**CASES["smollm2"], "tokens": 0}, torch.float16).launches == 0


@pytest.mark.parametrize(("heads", "elements"), [(9, 32), (71, 64), (96, 256), (232, 64), (1, 128)])
def test_head_blocks_divide_the_heads(heads, elements):
    block = head_block(heads, elements, 29)
    assert heads % block == 0
    assert block * elements * 29 <= 180_000


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"positions": torch.zeros(2, dtype=torch.int16)}, "AI-OP-001"),
        ({"key": torch.zeros(2, 1, 64, dtype=torch.bfloat16)}, "AI-OP-001"),
        ({"key": torch.zeros(2, 1, 32, dtype=torch.float16)}, "AI-OP-004"),
        ({"positions": torch.zeros(3, dtype=torch.int64)}, "AI-OP-004"),
        ({"cos_sin_cache": torch.zeros(8, 128, dtype=torch.float16)}, "AI-OP-004"),
        ({"query": torch.zeros(4, 2, 64, dtype=torch.float16).transpose(0, 1)}, "AI-OP-003"),
        ({"cos_sin_cache": torch.zeros(8, 33, dtype=torch.float16)}, "AI-OP-004"),
        ({"cos_sin_cache": torch.zeros(8, 48, dtype=torch.float16)}, "AI-OP-006"),
        ({"key": torch.zeros(2, 0, 64, dtype=torch.float16)}, "AI-OP-006"),
    ],
)
def test_wrong_arguments_are_named(change, code):
    arguments = {
        "positions": torch.zeros(2, dtype=torch.int64),
        "query": torch.zeros(2, 4, 64, dtype=torch.float16),
        "key": torch.zeros(2, 1, 64, dtype=torch.float16),
        "cos_sin_cache": torch.zeros(8, 64, dtype=torch.float16),
        "interleaved": False,
        **change,
    }
    with pytest.raises((UsageError, UnsupportedError)) as caught:
        check(**arguments)
    assert caught.value.code == code
    assert next(iter(change)) in caught.value.what or code == "AI-OP-006"
