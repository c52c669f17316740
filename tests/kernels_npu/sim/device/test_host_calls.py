"""Half-precision products of torch on the device: one rounding, as the cube makes it."""

from __future__ import annotations

import pytest
import torch

from tests.kernels_npu.sim.device.conftest import capture

SHAPES = [(64, 130, 96), (33, 7, 5), (5, 300, 9)]


@pytest.mark.parametrize("m, k, n", SHAPES)
def test_products_agree_with_float64(m: int, k: int, n: int):
    a, b = torch.randn(2, m, k).half(), torch.randn(2, k, n).half()
    bias = torch.randn(n).half()
    x, y, z = a.npu(), b.npu(), bias.npu()
    exact = a.double() @ b.double()
    out = torch.empty(m, n, dtype=torch.float16, device="npu")
    torch.mm(x[0], y[0], out=out)
    results = {
        "mm": (x[0] @ y[0], exact[0]),
        "out": (out, exact[0]),
        "bmm": (torch.bmm(x, y), exact),
        "addmm": (torch.addmm(z, x[1], y[1], beta=0.5, alpha=2), 2 * exact[1] + bias.double() / 2),
        "baddbmm": (torch.baddbmm(z, x, y), exact + bias.double()),
        "linear": (torch.nn.functional.linear(x, y[0].T.contiguous()), a.double() @ b[0].double()),
        "graph": (replayed(lambda: x[0] @ y[0]), exact[0]),
    }
    for name, (found, expected) in results.items():
        ulp = expected.abs() * 2**-10 + 2**-10
        worst = ((found.cpu().double() - expected).abs() / ulp).max().item()
        assert found.dtype is torch.float16 and worst <= (0.6 if m >= 32 else 2), (name, worst)


def replayed(body) -> torch.Tensor:
    graph, result = capture(body)
    graph.replay()
    return result


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_short_products_are_rounded_once_to_float32(dtype: torch.dtype):
    """Kernels do the same, so that a script may compare bit by bit."""
    a, b = torch.randn(3, 64, 96).to(dtype), torch.randn(3, 96, 40).to(dtype)
    expected = (a.double() @ b.double()).float().to(dtype)
    assert torch.equal((a.npu() @ b.npu()).cpu(), expected)
    assert torch.equal(torch.einsum("bij,bjk->bik", a.npu(), b.npu()).cpu(), expected)


@pytest.mark.parametrize("name", ["exp", "log", "sin", "tanh", "exp2"])
def test_functions_of_float32_are_rounded_once(name: str):
    x = torch.rand(1000) * 8 + 0.1
    function, y = getattr(torch, name), (torch.rand(7, 5) + 0.5)
    expected = function(x.double()).float()
    assert torch.equal(function(x.npu()).cpu(), expected)
    out = torch.empty(1000, device="npu")
    function(x.npu(), out=out)
    assert torch.equal(out.cpu(), expected)
    z = y.npu()
    getattr(z, name + "_")()
    assert torch.equal(z.cpu(), function(y.double()).float())
    assert torch.equal(function(y.half().npu()).cpu(), function(y.half()))


def test_other_dtypes_and_mixed_ones_are_pytorch_s():
    a, b = torch.randn(40, 8), torch.randn(8, 6)
    torch.testing.assert_close((a.npu() @ b.npu()).cpu(), a @ b)
    with pytest.raises(RuntimeError, match="dtype"):
        a.half().npu() @ b.npu()


def test_labels_may_be_int32():
    x = torch.randn(9, 5, requires_grad=True)
    labels = torch.randint(0, 5, (9,))
    expected = torch.nn.functional.cross_entropy(x, labels)
    (gradient,) = torch.autograd.grad(expected, x)
    y = x.detach().npu().requires_grad_()
    loss = torch.nn.functional.cross_entropy(y, labels.int().npu())
    loss.backward()
    torch.testing.assert_close(loss.cpu(), expected)
    torch.testing.assert_close(y.grad.cpu(), gradient)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32], ids=str)
def test_integers_keep_their_low_bits(dtype: torch.dtype):
    values = [200, -3, 1 << 15, (1 << 31) + 7, 5]
    x = torch.zeros(len(values), dtype=dtype, device="npu")
    for position, value in enumerate(values):
        x[position] = value
    expected = torch.tensor(values).to(dtype)
    assert torch.equal(x.cpu(), expected)
    assert x.fill_(values[0]).tolist() == [expected[0].item()] * len(values)
    assert torch.full((2,), 3.7, device="npu").tolist() == [pytest.approx(3.7)] * 2
    mask = torch.zeros(2, dtype=torch.bool, device="npu")
    mask[0] = 2
    assert mask.tolist() == [True, False]
