"""Small random models that stand in for real ones."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest
import torch


def _stand_in() -> types.ModuleType:
    m = types.ModuleType("kernels_npu.ops")

    def rms(x, w, eps):
        f = x.float()
        return ((f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + eps)) * w.float()).to(x.dtype)

    def add_rms(x, r, w, eps):
        r.add_(x)
        return rms(r, w, eps)

    def rot(pos, q, k, cache, inter):
        half = cache.shape[1] // 2
        c, s = cache[pos].float().split(half, -1)
        for t in (q, k):
            a, b = t[..., :half].float().clone(), t[..., half : 2 * half].float().clone()
            t[..., :half] = a * c[:, None] - b * s[:, None]
            t[..., half : 2 * half] = b * c[:, None] + a * s[:, None]

    def rc(k, v, kc, vc, sm):
        for i, s in enumerate(sm.tolist()):
            if s >= 0:
                kc[s // kc.shape[1], s % kc.shape[1]] = k[i]
                vc[s // kc.shape[1], s % kc.shape[1]] = v[i]

    def att(q, kc, vc, bt, sl, scale, sw=0, cap=0.0):
        out = torch.zeros_like(q)
        g = q.shape[1] // kc.shape[2]
        for i, n in enumerate(sl.tolist()):
            if n == 0:
                continue
            lo = max(0, n - sw) if sw else 0
            k = kc[bt[i].long()].flatten(0, 1)[lo:n].float().repeat_interleave(g, 1)
            v = vc[bt[i].long()].flatten(0, 1)[lo:n].float().repeat_interleave(g, 1)
            p = (torch.einsum("hd,nhd->hn", q[i].float(), k) * scale).softmax(-1)
            out[i] = torch.einsum("hn,nhd->hd", p, v)
        return out

    def silu(x):
        a, b = x.float().chunk(2, -1)
        return (torch.nn.functional.silu(a) * b).to(x.dtype)

    m.rms_norm, m.add_rms_norm, m.rotary_embedding = rms, add_rms, rot
    m.reshape_and_cache, m.paged_decode_attention, m.silu_and_mul = rc, att, silu
    return m


try:
    from kernels_npu.ops import rms_norm as _rms_norm  # noqa: F401
except ImportError:
    import kernels_npu

    sys.modules["kernels_npu.ops"] = kernels_npu.ops = _stand_in()

    _registry = types.ModuleType("kernels_npu.registry")
    _registry.launch_counts = dict
    _registry.reset_launch_counts = lambda: None
    sys.modules["kernels_npu.registry"] = kernels_npu.registry = _registry


def _save(model: torch.nn.Module, path: Path) -> Path:
    model.save_pretrained(path, safe_serialization=True)
    return path


_SIZES = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 112,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 128,
    "initializer_range": 0.2,
    "eos_token_id": 95,
    "bos_token_id": 94,
}


@pytest.fixture(scope="session")
def llama_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random Llama: three query heads per KV head, an untied head, llama3 RoPE scaling."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        **_SIZES,
        tie_word_embeddings=False,
        rope_parameters={
            "rope_type": "llama3",
            "rope_theta": 500.0,
            "factor": 4.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        },
    )
    return _save(transformers.LlamaForCausalLM(config), tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="session")
def qwen2_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random Qwen2: QKV bias (made non-zero), tied head."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(1)
    config = transformers.Qwen2Config(**_SIZES, tie_word_embeddings=True)
    model = transformers.Qwen2ForCausalLM(config)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter)
    return _save(model, tmp_path_factory.mktemp("qwen2"))


@pytest.fixture(scope="session")
def mistral_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random Mistral whose sliding window is shorter than the test prompts."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(2)
    config = transformers.MistralConfig(**_SIZES, sliding_window=7, tie_word_embeddings=False)
    return _save(transformers.MistralForCausalLM(config), tmp_path_factory.mktemp("mistral"))
