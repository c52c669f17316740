"""Our layers on the simulated NPU beside references; what they leave to the host."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from ascend_infer.vllm_plugin import calls, layers, torch_operators
from kernels_npu import registry
from kernels_npu.sim.device.setup import enable

HIDDEN, EPS = 160, 1e-5
HEADS, KV_HEADS = 4, 2


class HostRMSNorm:
    """The host's constructor and what it leaves on a layer."""

    def __init__(self, *, dtype: torch.dtype = torch.float16, hidden: int = HIDDEN) -> None:
        generator = torch.Generator().manual_seed(3)
        self.weight = torch.randn(hidden, generator=generator).to(dtype).to("npu")
        self.variance_epsilon = EPS
        self.bias: torch.Tensor | None = None
        self.variance_size_override: int | None = None
        self.has_weight = True

    def forward_oot(self, x: torch.Tensor, residual: torch.Tensor | None = None) -> str:
        return "host"


class HostRotary:
    def __init__(self, *, rotary_dim: int = 64, neox: bool = True, head_size: int = 64) -> None:
        self.head_size, self.rotary_dim, self.is_neox_style = head_size, rotary_dim, neox
        self.dtype = torch.float16
        angles = torch.outer(torch.arange(99.0), 10000 ** -(torch.arange(rotary_dim // 2) / 32))
        self.cos_sin_cache = torch.cat((angles.cos(), angles.sin()), -1).half().to("npu")

    def forward_oot(self, positions: Any, query: Any, key: Any, *_: Any) -> str:
        return "host"


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A table with the host's classes, in which ours have taken their places."""
    enable()
    table: dict[str, Any] = {"RMSNorm": HostRMSNorm, "RotaryEmbedding": HostRotary}
    for name in ("vllm", "vllm.config", "vllm.model_executor", "vllm.model_executor.custom_op"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    heads = {"get_num_attention_heads": lambda _: HEADS, "get_num_kv_heads": lambda _: KV_HEADS}
    config = SimpleNamespace(
        model_config=SimpleNamespace(**heads), parallel_config=None, additional_config={}
    )
    sys.modules["vllm.config"].get_current_vllm_config = lambda: config  # type: ignore[attr-defined]
    custom_op = sys.modules["vllm.model_executor.custom_op"]
    custom_op.op_registry_oot = table  # type: ignore[attr-defined]
    vllm_operators = SimpleNamespace(maybe_chunk_residual=lambda x, residual: residual)
    monkeypatch.setattr(torch.ops, "vllm", vllm_operators, raising=False)
    monkeypatch.setattr(calls, "layers", type(calls.layers)())
    layers.replace(["rms_norm", "rotary_embedding"])
    layers.replace(["rms_norm", "rotary_embedding"])
    return table


def normalised(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    x = x.double()
    return x * (x.square().mean(-1, keepdim=True) + EPS).rsqrt() * weight.cpu().double()


@pytest.mark.parametrize("shape", [(1, HIDDEN), (7, HIDDEN), (0, HIDDEN), (3, 2, HIDDEN)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rms_norm(host: dict[str, Any], shape: tuple[int, ...], dtype: torch.dtype) -> None:
    layer = host["RMSNorm"](dtype=dtype)
    x, residual = (torch.randn(shape).to(dtype) for _ in range(2))
    tolerance = 2e-3 if dtype is torch.float16 else 2e-2
    with registry.strict():
        found = layer.forward_oot(x.to("npu"))
        with_residual, total = layer.forward_oot(x.to("npu"), residual.to("npu"))
    assert found.shape == with_residual.shape == total.shape == shape
    expected = normalised(x, layer.weight)
    torch.testing.assert_close(found.cpu().double(), expected, rtol=tolerance, atol=tolerance)
    summed = (x.float() + residual.float()).to(dtype)
    assert torch.equal(total.cpu(), summed)
    expected = normalised(summed, layer.weight)
    torch.testing.assert_close(
        with_residual.cpu().double(), expected, rtol=tolerance, atol=tolerance
    )


def test_rms_norm_leaves_its_arguments(host: dict[str, Any]) -> None:
    x, residual = (torch.randn(5, HIDDEN).half().to("npu") for _ in range(2))
    before = x.cpu().clone(), residual.cpu().clone()
    host["RMSNorm"]().forward_oot(x, residual)
    assert torch.equal(x.cpu(), before[0]) and torch.equal(residual.cpu(), before[1])


def test_rms_norm_takes_a_slice_of_heads(host: dict[str, Any]) -> None:
    """As the norms of queries and keys do with what the projection of all three returns."""
    projected = torch.randn(3, 7 * 64).half()
    query = projected.to("npu")[:, : 4 * 64]
    layer = host["RMSNorm"](hidden=64)
    found = layer.forward_oot(query.view(3, 4, 64))
    expected = normalised(projected[:, : 4 * 64].view(3, 4, 64), layer.weight)
    torch.testing.assert_close(found.cpu().double(), expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(
    ("attribute", "value", "reason"),
    [
        ("bias", torch.zeros(1), "the norm has a bias"),
        ("variance_size_override", 8, "the variance is over a part of the row"),
        ("has_weight", False, "the norm has no weight"),
    ],
)
def test_unusual_norms_are_the_hosts(attribute: str, value: object, reason: str) -> None:
    layer = HostRMSNorm()
    setattr(layer, attribute, value)
    assert layers.rms_norm_reason(layer) == reason


def test_norms_that_no_kernel_covers_are_the_hosts(host: dict[str, Any]) -> None:
    for layer in (host["RMSNorm"](dtype=torch.float32), host["RMSNorm"](hidden=30)):
        assert layer.forward_oot(torch.zeros(1, 1)) == "host"
    reasons = {reason for op, reason in calls.layers if op == "rms_norm"}
    assert len(reasons) == 2 and "the weight is torch.float32" in reasons


@pytest.mark.parametrize("neox", [True, False])
@pytest.mark.parametrize("rotary_dim", [64, 32])
def test_rotary_embedding(host: dict[str, Any], neox: bool, rotary_dim: int) -> None:
    layer = host["RotaryEmbedding"](neox=neox, rotary_dim=rotary_dim)
    positions = torch.tensor([5, 0, 98])
    projected = torch.randn(3, 6 * 64).half()
    query, key = projected.to("npu")[:, : 4 * 64], projected.to("npu")[:, 4 * 64 :]
    with registry.strict():
        found = layer.forward_oot(positions.to("npu"), query, key)
    cos, sin = layer.cos_sin_cache.cpu().double()[positions].chunk(2, -1)
    for got, given in zip(found, (projected[:, : 4 * 64], projected[:, 4 * 64 :])):
        heads = given.double().view(3, -1, 64)
        turned, rest = heads[..., :rotary_dim], heads[..., rotary_dim:]
        a, b = turned.chunk(2, -1) if neox else (turned[..., ::2], turned[..., 1::2])
        parts = a * cos[:, None] - b * sin[:, None], b * cos[:, None] + a * sin[:, None]
        both = torch.cat(parts, -1) if neox else torch.stack(parts, -1).flatten(-2)
        expected = torch.cat((both, rest), -1).view(given.shape)
        torch.testing.assert_close(got.cpu().double(), expected, rtol=4e-3, atol=4e-3)


def test_unusual_rotations_are_the_hosts(host: dict[str, Any]) -> None:
    layer = host["RotaryEmbedding"]()
    positions = torch.tensor([1]).to("npu")
    query, key = (torch.randn(1, n * 64).half().to("npu") for n in (HEADS, KV_HEADS))
    assert layer.forward_oot(positions, query, key) != "host"
    assert layer.forward_oot(positions, query, None) == "host"
    assert layer.forward_oot(positions, query, key, positions) == "host"
    assert layer.forward_oot(positions, query, key, None, False) == "host"
    # What no trial was for, and a kernel would be built for in the middle of a graph.
    assert layer.forward_oot(positions, query.float(), key.float()) == "host"
    assert layer.forward_oot(positions, query, query) == "host"
    assert layer.forward_oot(positions.int(), query, key) == "host"
    for odd in ({"rotary_dim": 48}, {"rotary_dim": 8, "neox": False}, {"head_size": 72}):
        assert host["RotaryEmbedding"](**odd).forward_oot(positions, query, key) == "host"


def test_the_rotation_returns_and_writes_nothing() -> None:
    positions, cache = torch.tensor([3, 1]), torch.randn(9, 32)
    arguments = (positions, torch.randn(2, 64), torch.randn(2, 32), cache, 32, False)
    torch.library.opcheck(torch_operators.rotary_embedding, arguments)
