"""silu_and_mul on the simulated NPU."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernels_npu.activation.silu_and_mul import SPEC, check, tile_width
from kernels_npu.errors import UnsupportedError, UsageError
from kernels_npu.sim.config import configure

#: One tile; several tiles of one row on several cores; more tiles than cores; a size whose
#: tiles are narrow.
SHAPES = [(1, 16), (3, 1536), (1, 18944), (70, 1072), (2, 16 * 257)]


@pytest.mark.parametrize(("rows", "inter"), SHAPES)
def test_matches_the_reference_and_moves_each_element_once(rows, inter, dtype, run, assert_traffic):
    dims = {"rows": rows, "inter": inter}
    assert_traffic(run(SPEC, dims, dtype), SPEC, dims, dtype)


def test_same_bits_under_every_schedule(run, schedule):
    dims = {"rows": 101, "inter": 1072}
    with configure(schedule="eager"):
        expected = run(SPEC, dims, torch.bfloat16).tensors["output"]
    assert torch.equal(run(SPEC, dims, torch.bfloat16).tensors["output"], expected)


def test_gates_far_out_are_zero_or_themselves(npu):
    from kernels_npu import ops

    x = torch.tensor([[-60000.0, -100.0, 100.0, 60000.0] * 4 + [1.0] * 16], dtype=torch.float16)
    got = ops.silu_and_mul(x.to(npu)).cpu()[0, :4]
    assert torch.equal(got, torch.tensor([0.0, 0.0, 100.0, 60000.0], dtype=torch.float16))


def test_one_row_of_a_wide_layer_uses_several_cores(run):
    assert run(SPEC, {"rows": 1, "inter": 18944}, torch.float16).blocks > 1


def test_no_rows_launch_nothing(run):
    outcome = run(SPEC, {"rows": 0, "inter": 64}, torch.float16)
    assert outcome.launches == 0
    assert outcome.tensors["output"].shape == (0, 64)


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.integers(1, 40), inter=st.integers(1, 200).map(lambda n: 16 * n))
def test_any_shape(rows, inter, run):
    run(SPEC, {"rows": rows, "inter": inter}, torch.float16)


@given(inter=st.integers(1, 2000).map(lambda n: 16 * n))
def test_tiles_divide_the_gate(inter):
    width = tile_width(inter)
    assert inter % width == 0
    assert width % 16 == 0
    assert width <= 4096


def test_wrong_arguments_are_named():
    with pytest.raises(UsageError) as caught:
        check(torch.zeros(1, 64))
    assert "torch.float32" in caught.value.what
    with pytest.raises(UnsupportedError) as refused:
        check(torch.zeros(1, 40, dtype=torch.float16))
    assert "40" in refused.value.what
    with pytest.raises(UsageError) as odd:
        check(torch.zeros(1, 65, dtype=torch.float16))
    assert "columns of x is 65" in odd.value.what
