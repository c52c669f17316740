"""torch_npu's operators against independent formulas, forwards and backwards."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from kernels_npu.sim.device.errors import NotSimulatedError
from tests.kernels_npu.sim.device.conftest import capture

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


@pytest.fixture
def torch_npu():
    import torch_npu

    return torch_npu


def near(found: torch.Tensor, expected: torch.Tensor) -> None:
    """`found` is `expected` (float64) rounded once to its dtype, but for one unit or so."""
    assert found.device.type == "npu"
    eps = torch.finfo(found.dtype).eps
    torch.testing.assert_close(
        found.cpu().double(), expected.double(), rtol=2 * eps, atol=max(2 * eps, 1e-6)
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_backward(torch_npu, dtype, approximate):
    x, g = torch.randn(2, 7, 33).to(dtype)
    found = torch_npu.npu_gelu_backward(g.npu(), x.npu(), approximate=approximate)
    x, g = x.double(), g.double()
    if approximate == "none":
        slope = (1 + torch.erf(x / math.sqrt(2))) / 2
        slope += x * torch.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    else:
        c = math.sqrt(2 / math.pi)
        t = torch.tanh(c * (x + 0.044715 * x**3))
        slope = (1 + t) / 2 + x * (1 - t * t) / 2 * c * (1 + 3 * 0.044715 * x * x)
    near(found, g * slope)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dim", [-1, 0])
def test_swiglu_and_its_backward(dtype, dim):
    x = torch.randn(6, 10).to(dtype)
    a, b = x.double().chunk(2, dim)
    y = x.npu().requires_grad_()
    out = torch.ops.npu.npu_swiglu(y, dim)
    near(out, a / (1 + torch.exp(-a)) * b)
    g = torch.randn(out.shape).to(dtype)
    exact = x.double().requires_grad_()
    p, q = exact.chunk(2, dim)
    (F.silu(p) * q).backward(g.double())
    near(torch.ops.npu.npu_swiglu_backward(g.npu(), x.npu(), dim), exact.grad)
    out.backward(g.npu())
    near(y.grad, exact.grad)
    longer = torch.cat([g.flatten(), torch.randn(x.numel() - g.numel()).to(dtype)]).view(x.shape)
    near(torch.ops.npu.npu_swiglu_backward(longer.npu(), x.npu(), dim), exact.grad)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("mode", ["half", "interleave"])
def test_rotary_mul_turns_pairs(torch_npu, dtype, mode):
    x = torch.randn(5, 3, 8).to(dtype)
    angle = torch.rand(5, 1, 4, dtype=torch.float64) * 6
    spread = {"half": lambda a: torch.cat([a, a], -1),
              "interleave": lambda a: a.repeat_interleave(2, -1)}[mode]  # fmt: skip
    cos, sin = spread(angle.cos()).to(dtype), spread(angle.sin()).to(dtype)
    found = torch_npu.npu_rotary_mul(x.npu(), cos.npu(), sin.npu(), rotary_mode=mode)
    pair = (slice(0, 4), slice(4, 8)) if mode == "half" else (slice(0, 8, 2), slice(1, 8, 2))
    z = torch.complex(x[..., pair[0]].double(), x[..., pair[1]].double())
    turned = z * torch.complex(cos[..., pair[0]].double(), sin[..., pair[0]].double())
    expected = torch.empty(x.shape, dtype=torch.float64)
    expected[..., pair[0]], expected[..., pair[1]] = turned.real, turned.imag
    near(found, expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("labels", [torch.int32, torch.int64], ids=str)
def test_cross_entropy(torch_npu, dtype, reduction, labels):
    x, y = torch.randn(11, 7).to(dtype), torch.randint(0, 7, (11,))
    weight = torch.rand(7) + 0.5
    loss, log_prob, *empty = torch_npu.npu_cross_entropy_loss(
        x.npu(), y.to(labels).npu(), weight.npu(), reduction=reduction
    )
    probabilities = torch.exp(x.double()) / torch.exp(x.double()).sum(1, keepdim=True)
    per_row = -probabilities.log()[range(11), y] * weight[y].double()
    expected = {"none": per_row, "sum": per_row.sum(), "mean": per_row.sum() / weight[y].sum()}
    near(loss, expected[reduction].reshape(-1))
    near(log_prob, probabilities.log())
    assert [t.numel() for t in empty] == [0, 0]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kept", [None, 0, 10, -3])
@pytest.mark.parametrize("copies", [1, 3])
def test_permuting_tokens_sorts_their_copies_by_expert(torch_npu, dtype, kept, copies):
    rows, experts = 9, 4
    tokens = torch.randn(rows, 5).to(dtype)
    indices = torch.randint(0, experts, (rows, copies) if copies > 1 else (rows,))
    entries = sorted(enumerate(indices.flatten().tolist()), key=lambda e: (e[1], e[0]))
    order = [entry for entry, _ in entries][: kept or None]
    position = [0] * len(entries)
    for place, (entry, _) in enumerate(entries):
        position[entry] = place
    x = tokens.npu().requires_grad_()
    permuted, found = torch_npu.npu_moe_token_permute(x, indices.int().npu(), kept)
    assert found.dtype is torch.int32 and found.tolist() == position
    assert torch.equal(permuted.cpu(), tokens[[entry // copies for entry in order]])
    gradient = torch.randn(permuted.shape).to(dtype)
    permuted.backward(gradient.npu())
    expected = torch.zeros(rows, 5, dtype=torch.float64)
    for row, entry in zip(gradient.double(), order):
        expected[entry // copies] += row
    near(x.grad, expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("dropped", [0, 4])
def test_unpermuting_weighs_and_sums(torch_npu, dtype, weighted, dropped):
    tokens, copies, hidden = 6, 2, 5
    position = torch.randperm(tokens * copies)
    rows = torch.randn(tokens * copies - dropped, hidden).to(dtype)
    probs = torch.rand(tokens, copies).to(dtype) if weighted else None
    x = rows.npu().requires_grad_()
    p = probs.npu().requires_grad_() if weighted else None
    found = torch_npu.npu_moe_token_unpermute(x, position.int().npu(), p)
    gradient = torch.randn(found.shape).to(dtype)
    found.backward(gradient.npu())
    leaf = rows.double().requires_grad_()
    padded = torch.cat([leaf, torch.zeros(dropped, hidden, dtype=torch.float64)])[position]
    weights = probs.double().requires_grad_() if weighted else None
    if weighted:
        padded = torch.einsum("tkh,tk->th", padded.reshape(tokens, copies, hidden), weights)
    near(found, padded)
    padded.backward(gradient.double())
    near(x.grad, leaf.grad)
    if weighted:
        near(p.grad, weights.grad)


def test_there_and_back_again(torch_npu):
    tokens, indices = torch.randn(7, 3).npu(), torch.randint(0, 4, (7, 2)).int().npu()
    permuted, position = torch_npu.npu_moe_token_permute(tokens, indices)
    half = torch.full((7, 2), 0.5).npu()
    torch.testing.assert_close(torch_npu.npu_moe_token_unpermute(permuted, position, half), tokens)


def test_operators_are_captured(torch_npu):
    x = torch.randn(4, 6).npu()
    graph, out = capture(lambda: torch_npu.npu_swiglu(x))
    x.copy_(torch.randn(4, 6).npu())
    graph.replay()
    torch.testing.assert_close(out, torch_npu.npu_swiglu(x))


def test_what_is_not_there_says_so(torch_npu):
    x = torch.randn(4, 6)
    with pytest.raises(RuntimeError, match="cpu"):
        torch_npu.npu_swiglu(x)
    labels = torch.zeros(4, dtype=torch.int64).npu()
    with pytest.raises(NotSimulatedError, match="AI-DEV-008"):
        torch_npu.npu_cross_entropy_loss(x.npu(), labels, label_smoothing=0.1)
    with pytest.raises(NotSimulatedError, match="AI-DEV-008"):
        torch_npu.npu_moe_token_permute(x.npu(), labels.int(), padded_mode=True)
    with pytest.raises(NotSimulatedError, match="AI-DEV-008"):
        torch_npu.npu_rotary_mul(x.npu(), x.npu(), x.npu(), rotary_mode="thirds")
    with pytest.raises(NotSimulatedError, match="npu_sparse_flash_attention"):
        torch_npu.npu_sparse_flash_attention(x.npu())
