"""Qwen3's attention with our operator on the simulated NPU; which layers are left to the host."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch

from ascend_infer.vllm_plugin import ascend_hooks, calls, qk_norm_rope
from kernels_npu import reference, registry
from kernels_npu.sim.device.setup import enable

HEADS, KV_HEADS, HEAD_DIM, HIDDEN = 6, 2, 64, 48
WIDTH = (HEADS + 2 * KV_HEADS) * HEAD_DIM


class RMSNorm:
    def __init__(self, seed: int, dtype: torch.dtype) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.weight = (1 + torch.randn(HEAD_DIM, generator=generator) / 4).to(dtype).to("npu")
        self.variance_epsilon, self.bias, self.variance_size_override = 1e-6, None, None
        self.has_weight = True


class RotaryEmbedding:
    def __init__(self, rotary_dim: int, dtype: torch.dtype) -> None:
        self.head_size, self.rotary_dim, self.is_neox_style = HEAD_DIM, rotary_dim, True
        self.dtype = dtype
        angles = torch.outer(torch.arange(99.0), 10000 ** -(torch.arange(rotary_dim // 2) / 32))
        self.cos_sin_cache = torch.cat((angles.cos(), angles.sin()), -1).to(dtype).to("npu")


class Attention:
    """A layer as the host builds it: what matters of it, and what it is given."""

    def __init__(
        self,
        change: Callable[[Any], None] = lambda layer: None,
        *,
        rotary_dim: int = HEAD_DIM,
        dtype: torch.dtype = torch.float16,
    ) -> None:
        generator = torch.Generator().manual_seed(7)
        self.projection = torch.randn(HIDDEN, WIDTH, generator=generator).to(dtype).to("npu") / 7
        self.num_heads, self.num_kv_heads, self.head_dim = HEADS, KV_HEADS, HEAD_DIM
        self.q_norm, self.k_norm = RMSNorm(1, dtype), RMSNorm(2, dtype)
        self.rotary_emb = RotaryEmbedding(rotary_dim, dtype)
        self.given: tuple[torch.Tensor, ...] = ()
        change(self)

    def qkv_proj(self, hidden: torch.Tensor) -> tuple[torch.Tensor, None]:
        return hidden @ self.projection, None

    def attn(self, *given: torch.Tensor) -> torch.Tensor:
        self.given = given
        return given[0]

    def o_proj(self, attended: torch.Tensor) -> tuple[torch.Tensor, None]:
        return attended, None


def hosts_forward(self: Any, positions: torch.Tensor, hidden_states: torch.Tensor) -> str:
    return "host"


@pytest.fixture
def layer(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The host's layer class after ours has been put before its function, twice."""
    enable()
    table = {"RMSNorm": RMSNorm, "RotaryEmbedding": RotaryEmbedding}
    name = "forward_with_split_qkv_rmsnorm_mrope"
    made = type("Qwen3Attention", (Attention,), {"forward": hosts_forward})
    for module, contents in {
        "vllm": {},
        "vllm.model_executor": {},
        "vllm.model_executor.custom_op": {"op_registry_oot": table},
        "vllm.model_executor.models.qwen3": {"Qwen3Attention": made},
        "vllm_ascend.patch.worker.patch_qwen3vl": {name: hosts_forward},
    }.items():
        stand_in = ModuleType(module)
        vars(stand_in).update(contents)
        monkeypatch.setitem(sys.modules, module, stand_in)
    monkeypatch.setattr(calls, "layers", Counter())
    qk_norm_rope.replace(ascend_hooks.qwen3_layers())
    qk_norm_rope.replace(ascend_hooks.qwen3_layers())
    return made


def test_positions_that_no_trial_had_are_the_hosts(layer: Any) -> None:
    """A kernel would be built for them in the middle of a graph."""
    built = layer()
    hidden, positions = torch.randn(2, HIDDEN).half().to("npu"), torch.tensor([3, 1]).to("npu")
    assert built.forward(positions, hidden) is built.given[0]
    assert built.forward(positions.int(), hidden) == "host"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("tokens", "rotary_dim"), [(5, 64), (1, 32), (0, 64)])
def test_attention_is_given_what_the_three_operators_make(
    layer: Any, tokens: int, rotary_dim: int, dtype: torch.dtype
) -> None:
    built = layer(rotary_dim=rotary_dim, dtype=dtype)
    hidden = torch.randn(tokens, HIDDEN).to(dtype).to("npu")
    positions = torch.randint(99, (tokens,))
    with registry.strict():
        out = built.forward(positions.to("npu"), hidden)
    assert out is built.given[0]
    qkv = built.qkv_proj(hidden)[0].cpu()
    weights = (norm.weight.cpu() for norm in (built.q_norm, built.k_norm))
    cache = built.rotary_emb.cos_sin_cache.cpu()
    expected = reference.split_qkv_rmsnorm_rope(
        qkv, *weights, 1e-6, positions, cache, HEADS, KV_HEADS
    )
    tolerance = 2e-3 if dtype is torch.float16 else 2e-2
    for got, want in zip(built.given, expected):
        torch.testing.assert_close(got.cpu(), want, rtol=tolerance, atol=tolerance)
    assert calls.layers["qk_norm_rope", calls.OURS] == 1


def _set(path: str, value: object) -> Callable[[Any], None]:
    def change(layer: Any) -> None:
        *parents, last = path.split(".")
        for parent in parents:
            layer = getattr(layer, parent)
        setattr(layer, last, value)

    return change


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_set("rotary_emb", object()), "positions are embedded by object"),
        (_set("rotary_emb.is_neox_style", False), "pairs (2i, 2i + 1)"),
        (_set("rotary_emb.use_mtp", True), "drafts of multi-token prediction"),
        (_set("rotary_emb.cos_sin_cache", torch.zeros(4, 64).double()), "angles is torch.float64"),
        (_set("rotary_emb.cos_sin_cache", torch.zeros(4, 48)), "rotary_dim 48"),
        (_set("q_norm", object()), "heads are normalised by object"),
        (_set("k_norm.variance_epsilon", 1e-5), "different epsilons"),
        (_set("k_norm.bias", torch.zeros(1)), "the norm has a bias"),
        (_set("k_norm.weight", torch.zeros(2 * HEAD_DIM).half()), "more than a head"),
        (_set("num_kv_heads", 0), "key has 0 heads"),
    ],
)
def test_other_layers_are_the_hosts(layer: Any, change: Callable[[Any], None], why: str) -> None:
    built = layer(change)
    assert built.forward(torch.zeros(1), torch.zeros(1, HIDDEN)) == "host"
    assert why in built.ascend_infer_reason
    assert calls.layers == {("qk_norm_rope", built.ascend_infer_reason): 1}


def test_a_subclass_is_the_hosts(layer: Any) -> None:
    class Mellum(layer):  # type: ignore[misc]
        pass

    assert Mellum().forward(torch.zeros(1), torch.zeros(1, HIDDEN)) == "host"
    assert calls.layers == {("qk_norm_rope", "Mellum is a layer of its own"): 1}
