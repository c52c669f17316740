"""The plugin in the stock host: the host's tokens in each mode, decoded by our kernels."""

from __future__ import annotations

from collections import Counter

import pytest

from ascend_infer.vllm_plugin.calls import OURS
from tests.vllm.conftest import NEW_TOKENS
from tests.vllm.test_modes import LAYERS, MODES

#: Decode steps at least: two batches of four, of which prefill gives each first token.
STEPS = 2 * (NEW_TOKENS - 1)


@pytest.mark.parametrize("mode", MODES)
def test_our_kernels_decode_the_hosts_tokens(mode, ours, stock, prompts):
    found = ours(mode, [prompts])
    assert found["tokens"] == [stock]
    plugin, start, serving = found["plugin"], found["start"], found["serving"]
    assert {op: set(who) for op, who in plugin["layers"].items()} == {
        "rms_norm": {OURS},
        "rotary_embedding": {OURS},
        "qk_norm_rope": {OURS},
        "attention": {OURS},
    }
    # The lengths are read on the device: nothing to update between replays.
    assert start["task_groups"] == serving["task_updates"] == 0
    captures, attention_inside, _ = MODES[mode]
    assert start["captures"] == captures
    kernel = "paged_decode_attention"
    if attention_inside:
        assert serving["replayed_launches"][kernel] == LAYERS * serving["replays"]
        assert serving["replays"] >= STEPS
    else:
        assert serving["eager_launches"][kernel] >= LAYERS * STEPS
    launches = Counter(serving["replayed_launches"]) + Counter(serving["eager_launches"])
    assert launches["split_qkv_rmsnorm_rope"] >= LAYERS * STEPS
    assert not launches["rotary_embedding"]  # which Qwen3 calls nowhere else
    reasons = set(plugin["attention_calls"]) - {OURS}
    assert reasons and reasons <= {"step of PrefillNoCache", "step of ChunkedPrefill"}
