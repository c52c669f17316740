"""reshape_and_cache on the simulated NPU."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernels_npu.errors import UnsupportedError, UsageError
from kernels_npu.kv_cache.reshape_and_cache import SPEC, check
from kernels_npu.sim.config import configure

CASES = [
    {"tokens": 1, "kv_heads": 3, "head_dim": 64, "block_size": 128},
    {"tokens": 7, "kv_heads": 1, "head_dim": 96, "block_size": 16, "padding": 3},
    {"tokens": 60, "kv_heads": 8, "head_dim": 128, "block_size": 32, "padding": 1},
    {"tokens": 2, "kv_heads": 64, "head_dim": 256, "block_size": 16},
    {"tokens": 3, "kv_heads": 2, "head_dim": 64, "block_size": 64, "padding": 3},
]


@pytest.mark.parametrize("dims", CASES, ids=str)
def test_is_bit_exact_and_moves_stored_rows_only(dims, dtype, run, assert_traffic):
    assert_traffic(run(SPEC, dims, dtype), SPEC, dims, dtype)


def test_same_bits_under_every_schedule(run, schedule):
    dims = {"tokens": 99, "kv_heads": 3, "head_dim": 64, "block_size": 16, "padding": 4}
    with configure(schedule="eager"):
        expected = run(SPEC, dims, torch.float16)
    outcome = run(SPEC, dims, torch.float16)
    assert torch.equal(outcome.tensors["key_cache"], expected.tensors["key_cache"])


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    tokens=st.integers(0, 60), padding=st.integers(0, 5), block_size=st.sampled_from([16, 48, 128])
)
def test_any_mixture_of_padding(tokens, padding, block_size, run):
    dims = {
        "tokens": tokens,
        "padding": min(padding, tokens),
        "kv_heads": 2,
        "head_dim": 32,
        "block_size": block_size,
    }
    assert run(SPEC, dims, torch.bfloat16).launches == (tokens > 0)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"slot_mapping": torch.zeros(2, dtype=torch.int64)}, "AI-OP-001"),
        ({"key": torch.zeros(64, dtype=torch.float16)}, "AI-OP-004"),
        ({"value": torch.zeros(2, 3, 32, dtype=torch.float16)}, "AI-OP-004"),
        ({"key_cache": torch.zeros(4, 16, 2, 64, dtype=torch.float16)}, "AI-OP-004"),
        ({"slot_mapping": torch.zeros(3, dtype=torch.int32)}, "AI-OP-004"),
        ({"value_cache": torch.zeros(4, 16, 3, 128, dtype=torch.float16)[..., :64]}, "AI-OP-003"),
    ],
)
def test_wrong_arguments_are_named(change, code):
    arguments = {
        "key": torch.zeros(2, 3, 64, dtype=torch.float16),
        "value": torch.zeros(2, 3, 64, dtype=torch.float16),
        "key_cache": torch.zeros(4, 16, 3, 64, dtype=torch.float16),
        "value_cache": torch.zeros(4, 16, 3, 64, dtype=torch.float16),
        "slot_mapping": torch.zeros(2, dtype=torch.int32),
        **change,
    }
    with pytest.raises(UsageError) as caught:
        check(**arguments)
    assert caught.value.code == code
    assert next(iter(change)) in caught.value.what


def test_heads_of_an_odd_size_are_refused():
    rows, cache = torch.zeros(1, 1, 40).half(), torch.zeros(1, 16, 1, 40).half()
    with pytest.raises(UnsupportedError) as caught:
        check(rows, rows, cache, cache.clone(), torch.zeros(1, dtype=torch.int32))
    assert caught.value.code == "AI-OP-006"
