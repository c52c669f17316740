"""Why a layer keeps the host's operator."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ascend_infer.vllm_plugin.reasons import attention_reason, first_true, unserved
from kernels_npu.requirements import hidden_size


def layer(**changed: Any) -> SimpleNamespace:
    """What a host keeps on its implementation of a plain layer."""
    plain = {
        "sliding_window": None,
        "alibi_slopes": None,
        "sinks": None,
        "kv_sharing_target_layer_name": None,
        "kv_cache_dtype": "auto",
        "attn_type": "decoder",
    }
    return SimpleNamespace(**{**plain, **changed})


@pytest.mark.parametrize(
    "usual",
    [
        {},
        {"sliding_window": -1},  # as vLLM's CPU platform says that there is none
        {"kv_cache_dtype": "bfloat16"},
        {"attn_type": "AttentionType.DECODER"},
        {"enable_c8_quant": False},
    ],
)
def test_plain_layers_are_ours(usual: dict[str, Any]) -> None:
    assert attention_reason(layer(**usual), None) is None
    assert attention_reason(layer(**usual), 0.0) is None


@pytest.mark.parametrize(
    ("unusual", "reason"),
    [
        ({"sliding_window": 64}, "sliding window"),
        ({"sliding_window": 0}, "sliding window"),
        ({"alibi_slopes": [0.5]}, "ALiBi slopes"),
        ({"sinks": [0.1]}, "attention sinks"),
        ({"kv_sharing_target_layer_name": "layers.0"}, "a cache shared between layers"),
        ({"kv_cache_dtype": "fp8_e4m3"}, "KV cache of fp8_e4m3"),
        ({"enable_c8_quant": True}, "quantised KV cache"),
        ({"enable_hamming_sparse": True}, "sparse attention"),
        ({"attn_type": "encoder_only"}, "not a decoder's attention"),
        ({"attn_type": "encoder_decoder"}, "not a decoder's attention"),
    ],
)
def test_unusual_layers_are_the_hosts(unusual: dict[str, Any], reason: str) -> None:
    assert attention_reason(layer(**unusual), None) == reason


def test_soft_caps_are_the_hosts() -> None:
    assert attention_reason(layer(), 30.0) == "soft cap of the logits"


def test_the_first_of_several_reasons_is_told() -> None:
    assert first_true([(False, "a"), (True, "b"), (True, "c")]) == "b"
    assert first_true([(False, "a")]) is None


def test_a_reason_is_what_a_requirement_says_happened() -> None:
    assert unserved(hidden_size, "rms_norm", 160) is None
    reason = unserved(hidden_size, "rms_norm", 161)
    assert reason == "rms_norm: hidden size 161 is not a multiple of 16 up to 16384"
