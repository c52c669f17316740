"""split_qkv_rmsnorm_rope on the simulated NPU, beside its reference and the three operators."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernels_npu.errors import UnsupportedError, UsageError
from kernels_npu.rotary.split_qkv_rmsnorm_rope import SPEC, check
from kernels_npu.sim.config import configure
from kernels_npu.spec import Workload

CASES = {
    "qwen3-0.6b": {"tokens": 3, "q_heads": 16, "kv_heads": 8, "head_dim": 128},
    "more-tokens-than-cores": {"tokens": 51, "q_heads": 4, "kv_heads": 4, "head_dim": 64},
    "partial": {"tokens": 2, "q_heads": 13, "kv_heads": 1, "head_dim": 128, "rotary_dim": 32},
    "a-small-rest": {"tokens": 1, "q_heads": 3, "kv_heads": 2, "head_dim": 80, "rotary_dim": 64},
    "several-tiles-of-heads": {
        "tokens": 2,
        "q_heads": 96,
        "kv_heads": 64,
        "head_dim": 256,
        "rotary_dim": 64,
    },
    "int32-positions-float32-cache": {
        "tokens": 5,
        "q_heads": 5,
        "kv_heads": 1,
        "head_dim": 96,
        "position_dtype": torch.int32,
        "cache_dtype": torch.float32,
    },
}


@pytest.mark.parametrize("case", CASES)
def test_matches_the_reference_and_moves_each_element_once(case, dtype, run, assert_traffic):
    outcome = run(SPEC, CASES[case], dtype)
    assert outcome.launches == 1
    assert_traffic(outcome, SPEC, CASES[case], dtype)


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    tokens=st.integers(1, 7),
    kv_heads=st.integers(1, 5),
    group=st.integers(1, 7),
    head_dim=st.integers(2, 16).map(lambda n: 16 * n),
    data=st.data(),
)
def test_any_shape(tokens, kv_heads, group, head_dim, data, run, assert_traffic):
    rotary_dim = 32 * data.draw(st.integers(1, head_dim // 32))
    dims = {"tokens": tokens, "q_heads": group * kv_heads, "kv_heads": kv_heads}
    dims |= {"head_dim": head_dim, "rotary_dim": rotary_dim}
    assert_traffic(run(SPEC, dims, torch.bfloat16), SPEC, dims, torch.bfloat16)


def test_same_bits_under_every_schedule(run, schedule):
    dims = {**CASES["partial"], "tokens": 99}
    with configure(schedule="eager"):
        expected = run(SPEC, dims, torch.float16)
    outcome = run(SPEC, dims, torch.float16)
    for name, tensor in outcome.tensors.items():
        assert torch.equal(tensor, expected.tensors[name])


@pytest.mark.parametrize("rotary_dim", [64, 32])
def test_is_the_norms_then_the_rotation(rotary_dim, npu):
    """Those round twice, so the results may differ by a unit in the last place and its turn."""
    from kernels_npu import ops

    dims = {"tokens": 7, "q_heads": 6, "kv_heads": 2, "head_dim": 64, "rotary_dim": rotary_dim}
    generator = torch.Generator().manual_seed(5)
    given = SPEC.make_inputs(Workload(name="test", dims=dims), torch.float16, "cpu", generator)
    given["positions"] = torch.tensor([500, 0, 3, 3, 499, 1, 2])  # in no order, one twice
    given = {k: v.to(npu) if isinstance(v, torch.Tensor) else v for k, v in given.items()}
    before = given["qkv"].cpu().clone()
    query, key, value = ops.split_qkv_rmsnorm_rope(**given)
    assert torch.equal(given["qkv"].cpu(), before)
    parts = [part.contiguous() for part in given["qkv"].split([384, 128, 128], -1)]
    assert torch.equal(value.cpu(), parts[2].cpu())
    q, k = (
        ops.rms_norm(part.view(-1, 64), weight, given["eps"]).view(7, -1, 64)
        for part, weight in zip(parts, (given["q_weight"], given["k_weight"]))
    )
    ops.rotary_embedding(given["positions"], q, k, given["cos_sin_cache"])
    for got, want in ((query, q), (key, k)):
        torch.testing.assert_close(got.cpu(), want.cpu().view(7, -1), atol=4e-3, rtol=2e-3)


@pytest.mark.parametrize("size", [60000.0, 1e-4])
def test_squares_of_the_whole_range_of_fp16_fit(size, npu):
    from kernels_npu import ops, reference

    signs = torch.randn(2, 3 * 128, generator=torch.Generator().manual_seed(0)).sign()
    cache = torch.randn(9, 64, generator=torch.Generator().manual_seed(1)).half()
    weight, positions = torch.ones(128, dtype=torch.float16), torch.tensor([8, 0])
    qkv = (size * signs).half()
    given = (qkv, weight, weight, 1e-12, positions, cache)
    got = ops.split_qkv_rmsnorm_rope(
        *(v.to(npu) if isinstance(v, torch.Tensor) else v for v in given), 1, 1
    )
    wide = (
        v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v for v in given
    )
    for tensor, expected in zip(got, reference.split_qkv_rmsnorm_rope(*wide, 1, 1)):
        torch.testing.assert_close(tensor.cpu().double(), expected, atol=1e-6, rtol=2**-10)


def test_no_tokens_launch_nothing(run):
    outcome = run(SPEC, {**CASES["partial"], "tokens": 0}, torch.float16)
    assert outcome.launches == 0
    assert [tuple(t.shape) for t in outcome.tensors.values()] == [(0, 13 * 128), (0, 128), (0, 128)]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"qkv": torch.zeros(2, 384)}, "AI-OP-001"),
        ({"q_weight": torch.zeros(64)}, "AI-OP-001"),
        ({"positions": torch.zeros(2, dtype=torch.int16)}, "AI-OP-001"),
        ({"qkv": torch.zeros(384, 2, dtype=torch.float16).t()}, "AI-OP-003"),
        ({"qkv": torch.zeros(2, 320, dtype=torch.float16)}, "AI-OP-004"),
        ({"k_weight": torch.zeros(32, dtype=torch.float16)}, "AI-OP-004"),
        ({"positions": torch.zeros(3, dtype=torch.int64)}, "AI-OP-004"),
        ({"cos_sin_cache": torch.zeros(8, 128, dtype=torch.float16)}, "AI-OP-004"),
        ({"num_q_heads": 3, "num_kv_heads": 1}, "AI-OP-004"),
        ({"num_q_heads": -1}, "AI-OP-005"),
        ({"eps": float("nan")}, "AI-OP-005"),
        ({"num_q_heads": 0, "num_kv_heads": 3}, "AI-OP-006"),
        ({"cos_sin_cache": torch.zeros(8, 48, dtype=torch.float16)}, "AI-OP-006"),
    ],
)
def test_wrong_arguments_are_named(change, code):
    arguments = {
        "qkv": torch.zeros(2, 6 * 64, dtype=torch.float16),
        "q_weight": torch.zeros(64, dtype=torch.float16),
        "k_weight": torch.zeros(64, dtype=torch.float16),
        "eps": 1e-6,
        "positions": torch.zeros(2, dtype=torch.int64),
        "cos_sin_cache": torch.zeros(8, 64, dtype=torch.float16),
        "num_q_heads": 4,
        "num_kv_heads": 1,
        **change,
    }
    with pytest.raises((UsageError, UnsupportedError)) as caught:
        check(**arguments)
    assert caught.value.code == code
    assert "split_qkv_rmsnorm_rope" in caught.value.what
