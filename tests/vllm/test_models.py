"""Other models than Qwen3, with random weights: ours where it can, the host's with its reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ascend_infer.vllm_plugin.calls import OURS
from tests.vllm.agreement import Reference, compare
from tests.vllm.conftest import with_plugin

MODE = "FULL_AND_PIECEWISE"
#: Name -> kind and arguments of its configuration, and what serves each operator.
MODELS: dict[str, tuple[str, dict[str, Any], dict[str, str]]] = {
    "heads of 64, one of keys": (
        "Llama",
        {"hidden_size": 256, "num_key_value_heads": 1, "head_dim": 64},
        {"rms_norm": OURS, "rotary_embedding": OURS, "attention": OURS},
    ),
    "heads of 128, as many of keys": (
        "Llama",
        {"num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 128},
        {"rms_norm": OURS, "rotary_embedding": OURS, "attention": OURS},
    ),
    "projections with a bias": (
        "Qwen2",
        {},
        {"rms_norm": OURS, "rotary_embedding": OURS, "attention": OURS},
    ),
    "a sliding window": (
        "Mistral",
        {"sliding_window": 64},
        {"rms_norm": OURS, "rotary_embedding": OURS, "attention": "sliding window"},
    ),
}
#: What the reference has instead: the host gives a window of W to an operator that takes the number
#: of keys *before* the query's own, and so sees one key more than the model has.
AS_THE_HOST_SEES_IT = {"a sliding window": {"sliding_window": 65}}


@pytest.mark.parametrize("name", MODELS)
def test_the_hosts_tokens(name, decode, prompts, tmp_path: Path):
    from vllm_host import tiny_model

    kind, changed, served = MODELS[name]
    folder, seen = tmp_path / "model", tmp_path / "seen"
    tiny_model.write(folder, kind, **changed)
    tiny_model.write(seen, kind, **{**changed, **AS_THE_HOST_SEES_IT.get(name, {})})
    ours, stock = (
        decode(
            MODE,
            [prompts],
            **with_plugin(ops, model=str(folder), sampling={"logprobs": 8}),
        )
        for ops in ("all", "off")
    )
    agreement = compare(ours, stock, [prompts], Reference(seen, "float16"))
    print(agreement)
    assert not agreement.errors
    found = {op: set(who) for op, who in ours["plugin"]["layers"].items()}
    assert found == {op: {who} for op, who in served.items()}
    decodes = ours["serving"]["replayed_launches"].get("paged_decode_attention", 0)
    if served["attention"] == OURS:
        assert decodes > 0 and ours["serving"]["task_updates"] == 0
    else:
        assert decodes == 0 and set(ours["plugin"]["attention_calls"]) == {served["attention"]}
