"""Stock vllm-ascend in each graph mode: transformers' tokens, and what the device counted."""

from __future__ import annotations

import pytest

from tests.vllm.conftest import HOST, NEW_TOKENS

LAYERS, SIZES = 2, 3
#: Mode -> graphs captured at the start, whether decode attention is in them, replays of a step.
MODES = {
    "eager": (0, False, 0),
    "PIECEWISE": ((LAYERS + 1) * SIZES, False, LAYERS + 1),
    "FULL_DECODE_ONLY": (SIZES, True, 1),
    "FULL": (SIZES, True, 1),
    "FULL_AND_PIECEWISE": ((LAYERS + 1) * SIZES + SIZES, True, 1),
}
if HOST == "0.18.0":  # which turns it into the other
    MODES["FULL_AND_PIECEWISE"] = MODES["PIECEWISE"]


@pytest.mark.parametrize("mode", MODES)
def test_tokens_and_counts(mode, decode, prompts, expected):
    found = decode(mode, [prompts])
    assert found["tokens"] == [expected]
    captures, attention_inside, replays = MODES[mode]
    start, serving = found["start"], found["serving"]
    assert start["captures"] == captures and serving["captures"] == 0
    # Two batches of four decode together; the first of a prompt's tokens comes from its prefill.
    steps = serving["replays"] // replays if replays else 0
    assert serving["replays"] == steps * replays
    assert steps >= 2 * (NEW_TOKENS - 1) if replays else steps == 0
    attention = "npu_fused_infer_attention_score"
    if attention_inside:
        assert start["task_groups"] == LAYERS * SIZES
        assert serving["task_updates"] == LAYERS * steps
        assert serving["replayed_ops"][f"{attention}.out"] == LAYERS * steps
    else:
        assert start["task_groups"] == serving["task_updates"] == 0
        assert serving["eager_ops"][attention] >= LAYERS * 2 * (NEW_TOKENS - 1)


def test_half_precision_in_graphs_is_half_precision_eagerly(decode, prompts):
    """Against the host itself: rounding may change a token against float32."""
    eager = decode("eager", [prompts], dtype="float16")
    graphs = decode("FULL_AND_PIECEWISE", [prompts], dtype="float16")
    assert eager["tokens"] == graphs["tokens"]
