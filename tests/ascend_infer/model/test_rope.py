"""RoPE frequencies against transformers' own."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ascend_infer.model.rope import RopeScaling, cos_sin_cache, inverse_frequencies

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


@pytest.mark.parametrize(
    "scaling", [{"rope_type": "default"}, {"rope_type": "linear", "factor": 4.0}, LLAMA3], ids=str
)
@pytest.mark.parametrize("head_dim", [64, 96, 128])
def test_cos_and_sin_equal_transformers(scaling: dict[str, Any], head_dim: int):
    transformers = pytest.importorskip("transformers")
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    theta = 500000.0
    config = transformers.LlamaConfig(
        hidden_size=head_dim * 2,
        num_attention_heads=2,
        head_dim=head_dim,
        max_position_embeddings=16384,
        rope_parameters={**scaling, "rope_theta": theta},
    )
    positions = torch.tensor([[0, 1, 2, 100, 8191, 16383]])
    cos, sin = LlamaRotaryEmbedding(config)(torch.zeros(1), positions)
    ours = cos_sin_cache(
        16384, head_dim, theta, RopeScaling.from_hf(scaling, "test"), torch.float32
    )[positions[0]]
    half = head_dim // 2
    torch.testing.assert_close(ours[:, :half], cos[0, :, :half], atol=1e-6, rtol=0)
    torch.testing.assert_close(ours[:, half:], sin[0, :, :half], atol=1e-6, rtol=0)


def test_llama3_scaling_changes_low_frequencies_only():
    scaled = inverse_frequencies(128, 500000.0, RopeScaling.from_hf(LLAMA3, "test"))
    plain = inverse_frequencies(128, 500000.0, RopeScaling())
    torch.testing.assert_close(scaled[0], plain[0])
    torch.testing.assert_close(scaled[-1], plain[-1] / 8)


def test_stored_factors_divide_the_frequencies():
    scaling = RopeScaling.from_hf({"rope_type": "factors", "factors": [1.0, 2.0, 4.0, 8.0]}, "test")
    ratio = inverse_frequencies(8, 100.0, RopeScaling()) / inverse_frequencies(8, 100.0, scaling)
    assert ratio.tolist() == [1.0, 2.0, 4.0, 8.0]
