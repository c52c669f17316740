"""The host's own kernels: Gemma's norm is computed, the others are refused by name."""

from __future__ import annotations

import pytest
import torch
from vllm_host import custom_kernels

from kernels_npu.sim import device as simulated


@pytest.fixture(scope="module")
def kernels():
    simulated.enable()
    custom_kernels.define()
    return torch.ops._C_ascend


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gemmas_norm_is_the_plain_one_with_weights_around_zero(kernels, dtype):
    x, weight = torch.randn(3, 5, 48).to(dtype), (0.3 * torch.randn(48)).to(dtype)
    found, rstd = kernels.npu_gemma_rms_norm(x.npu(), weight.npu(), 1e-5)
    one = 1 / (x.double().square().mean(-1, keepdim=True) + 1e-5).sqrt()
    expected = x.double() * one * (1 + weight.double())
    assert found.dtype == dtype and rstd.shape == (3, 5, 1)
    assert torch.allclose(found.cpu().double(), expected, rtol=torch.finfo(dtype).eps, atol=1e-6)
    assert torch.allclose(rstd.cpu().double(), one, rtol=1e-6)


def test_another_one_is_named_and_can_be_asked_for(kernels):
    assert not hasattr(kernels, "moe_gating_top_k")
    with pytest.raises(AttributeError, match=r"AI-DEV-008.*_C_ascend\.bgmv_shrink is"):
        kernels.bgmv_shrink(torch.zeros(1))
