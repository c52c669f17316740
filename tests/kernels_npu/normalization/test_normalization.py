"""rms_norm and add_rms_norm on the simulated NPU."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernels_npu.errors import UnsupportedError, UsageError
from kernels_npu.normalization import add_rms_norm as add_module
from kernels_npu.normalization import common
from kernels_npu.normalization import fused_add_rms_norm as fused_module
from kernels_npu.normalization import rms_norm as norm_module
from kernels_npu.sim.config import configure

SPECS = {
    "rms_norm": norm_module.SPEC,
    "add_rms_norm": add_module.SPEC,
    "fused_add_rms_norm": fused_module.SPEC,
}
#: rows, hidden: one row; a tail of rows; one piece, several, a padded last piece, the largest row;
#: more rows than vector cores (48), so that slots are used again.
SHAPES = [(1, 16), (3, 576), (5, 2064), (2, 16336), (1, 16384), (101, 160), (51, 8192)]


@pytest.mark.parametrize("op", SPECS)
@pytest.mark.parametrize(("rows", "hidden"), SHAPES)
def test_matches_the_reference_and_moves_each_element_once(
    op, rows, hidden, dtype, run, assert_traffic
):
    dims = {"rows": rows, "hidden": hidden}
    outcome = run(SPECS[op], dims, dtype)
    assert_traffic(outcome, SPECS[op], dims, dtype)


@pytest.mark.parametrize("op", SPECS)
def test_same_bits_under_every_schedule(op, run, schedule):
    dims = {"rows": 97, "hidden": 2064}
    with configure(schedule="eager"):
        expected = run(SPECS[op], dims, torch.float16)
    outcome = run(SPECS[op], dims, torch.float16)
    for name, tensor in outcome.tensors.items():
        assert torch.equal(tensor, expected.tensors[name])


def test_the_fused_form_has_the_bits_of_the_other_and_leaves_its_arguments(npu):
    from kernels_npu import ops

    x, residual = (torch.randn(53, 176).half().to(npu) for _ in range(2))
    weight = torch.randn(176).half().to(npu)
    before = x.cpu().clone(), residual.cpu().clone()
    out, total = ops.fused_add_rms_norm(x, residual, weight, 1e-6)
    assert torch.equal(x.cpu(), before[0]) and torch.equal(residual.cpu(), before[1])
    assert torch.equal(ops.add_rms_norm(x, residual, weight, 1e-6).cpu(), out.cpu())
    assert torch.equal(residual.cpu(), total.cpu())


@pytest.mark.parametrize(("rows", "blocks"), [(1, 1), (2, 1), (3, 2), (48, 24), (500, 24)])
def test_the_grid_follows_the_rows_up_to_the_cores(rows, blocks, run):
    assert run(norm_module.SPEC, {"rows": rows, "hidden": 32}, torch.float16).blocks == blocks


@pytest.mark.parametrize("op", SPECS)
def test_no_rows_launch_nothing(op, run):
    outcome = run(SPECS[op], {"rows": 0, "hidden": 64}, torch.float16)
    assert outcome.launches == 0
    assert outcome.tensors["output"].shape == (0, 64)


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.integers(1, 60), hidden=st.integers(1, 300).map(lambda n: 16 * n))
def test_any_shape(rows, hidden, run, assert_traffic):
    dims = {"rows": rows, "hidden": hidden}
    outcome = run(add_module.SPEC, dims, torch.bfloat16)
    assert_traffic(outcome, add_module.SPEC, dims, torch.bfloat16)


@pytest.mark.parametrize("hidden", [16, 576, 2048, 2064, 4096, 16336, 16384])
def test_pieces_cover_the_row_and_start_aligned(hidden):
    tiles, width = common.row_tiles(hidden)
    assert width % 16 == 0
    assert width <= 2048
    assert (tiles - 1) * width < hidden <= tiles * width


def test_pieces_of_usual_rows_are_equal():
    for hidden in (576, 896, 2064, 3584, 4096, 5120, 6144, 8192, 12288, 16384):
        tiles, width = common.row_tiles(hidden)
        assert tiles * width == hidden


@pytest.mark.parametrize("size", [60000.0, 1e-4])
def test_squares_of_the_whole_range_of_fp16_fit(size, npu):
    """16384 squares of 60000 would overflow fp16, those of 1e-4 vanish in it; fp32 holds both."""
    from kernels_npu import ops, reference

    signs = torch.randn(2, 16384, generator=torch.Generator().manual_seed(0)).sign()
    x, weight = (size * signs).half(), torch.ones(16384, dtype=torch.float16)
    got = ops.rms_norm(x.to(npu), weight.to(npu), 1e-12).cpu()
    expected = reference.rms_norm(x.double(), weight.double(), 1e-12)
    torch.testing.assert_close(got.double(), expected, atol=0.0, rtol=2**-10)


def test_eps_keeps_a_row_of_zeros_finite(npu):
    from kernels_npu import ops

    x, weight = torch.zeros(1, 64, dtype=torch.float16), torch.ones(64, dtype=torch.float16)
    assert torch.equal(ops.rms_norm(x.to(npu), weight.to(npu), 1e-6).cpu(), x)


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ({"x": torch.zeros(2, 64, dtype=torch.float32)}, "AI-OP-001", "x is torch.float32"),
        (
            {"weight": torch.zeros(64, dtype=torch.bfloat16)},
            "AI-OP-001",
            "weight is torch.bfloat16",
        ),
        ({"weight": torch.zeros(32, dtype=torch.float16)}, "AI-OP-004", "[32]"),
        ({"x": torch.zeros(64, dtype=torch.float16)}, "AI-OP-004", "[any, any]"),
        ({"x": torch.zeros(64, 2, dtype=torch.float16).t()}, "AI-OP-003", "strides [1, 2]"),
        ({"x": torch.zeros((), dtype=torch.float16)}, "AI-OP-004", "x has shape []"),
        ({"eps": -1.0}, "AI-OP-005", "eps is -1.0"),
        ({"eps": float("nan")}, "AI-OP-005", "eps is nan"),
        ({"eps": float("inf")}, "AI-OP-005", "eps is inf"),
    ],
)
def test_wrong_arguments_are_named(change, code, words):
    arguments = {
        "x": torch.zeros(2, 64, dtype=torch.float16),
        "weight": torch.zeros(64, dtype=torch.float16),
        "eps": 1e-5,
        **change,
    }
    with pytest.raises(UsageError) as caught:
        norm_module.check(**arguments)
    assert caught.value.code == code
    assert words in caught.value.what
    assert caught.value.fix


def test_a_host_tensor_among_device_tensors_is_refused(npu):
    from kernels_npu import ops

    x, weight = torch.zeros(2, 64, dtype=torch.float16), torch.zeros(64, dtype=torch.float16)
    with pytest.raises(UsageError) as caught:
        ops.rms_norm(x.to(npu), weight, 1e-5)
    assert caught.value.code == "AI-OP-002"
    assert "weight is on cpu, but x is on npu:0" in caught.value.what


@pytest.mark.parametrize("hidden", [8, 24, 16400])
def test_a_hidden_size_without_a_kernel_is_refused(hidden, npu):
    from kernels_npu import ops, registry

    x = torch.zeros(1, hidden, dtype=torch.float16, device=npu)
    weight = torch.zeros(hidden, dtype=torch.float16, device=npu)
    with registry.strict(), pytest.raises(UnsupportedError) as caught:
        ops.rms_norm(x, weight, 1e-5)
    assert "AI-OP-006" in str(caught.value)
    assert str(hidden) in caught.value.what
