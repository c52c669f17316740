"""Small random models that stand in for real ones."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
import torch

# Loaded before any test can enable the simulated NPU in this process: transformers looks at every
# accelerator when it is imported, and the simulated one is not for it.
with contextlib.suppress(ImportError):
    import transformers.models.llama.modeling_llama
    import transformers.models.mistral.modeling_mistral
    import transformers.models.qwen2.modeling_qwen2  # noqa: F401


def _save(model: torch.nn.Module, path: Path) -> Path:
    model.save_pretrained(path, safe_serialization=True)
    return path


_SIZES = {
    "vocab_size": 96,
    "hidden_size": 96,
    "intermediate_size": 112,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 128,
    "initializer_range": 0.15,
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


@pytest.fixture(scope="session")
def kernel_sized_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small random Llama that NPU kernels take: head_dim 64, three query heads per KV head."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(3)
    sizes = {**_SIZES, "hidden_size": 192, "head_dim": 64, "num_hidden_layers": 2}
    config = transformers.LlamaConfig(**sizes, tie_word_embeddings=True)
    return _save(transformers.LlamaForCausalLM(config), tmp_path_factory.mktemp("kernel_sized"))
