"""`generate` on the CPU: what it prints, and the code and exit status of every wrong use."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ascend_infer.cli import main

FIELDS = {
    "device",
    "model",
    "prompt_token_ids",
    "output_token_ids",
    "text",
    "graph",
    "launches",
    "verify",
    "evidence",
}


def generate(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    exit_code = main(["generate", "--device", "cpu", "--json", *arguments])
    printed = capsys.readouterr().out
    return exit_code, json.loads(printed)


def test_fields_of_the_json_object(llama_dir: Path, capsys: pytest.CaptureFixture[str]):
    exit_code, result = generate(
        capsys, "--model", str(llama_dir), "--prompt-token-ids", "3,1,4", "--max-new-tokens", "6"
    )
    assert exit_code == 0 and result.keys() >= FIELDS
    assert result["prompt_token_ids"] == [3, 1, 4] and result["text"] is None
    assert len(result["output_token_ids"]) == 6
    assert result["graph"].keys() >= {"buckets", "captures", "replays", "eager_steps", "fallbacks"}
    assert result["graph"]["eager_steps"] == 5
    assert result["graph"]["fallbacks"] == {"device has no graphs": 5}
    assert result["launches"]["silu_and_mul"] == {"reference": 3 * 6}
    assert result["launches"]["paged_decode_attention"] == {"reference": 3 * 5}
    assert result["evidence"] == "cpu-verified" and result["verify"] is None


def test_verification(llama_dir: Path, capsys: pytest.CaptureFixture[str]):
    exit_code, result = generate(
        capsys,
        *("--model", str(llama_dir), "--prompt-token-ids", "3,1,4", "--dtype", "float32"),
        *("--prompt-token-ids", "7", "--max-new-tokens", "8", "--verify", "--ignore-eos"),
    )
    assert exit_code == 0
    reference = result["verify"]["reference"]
    assert reference["steps"] == 2 * 7 and reference["top1_agreement"] == 1.0
    assert reference["max_abs_logit_diff"] < 1e-3
    assert result["verify"]["eager_vs_replay"] is None
    assert [s["prompt_token_ids"] for s in result["sequences"]] == [[3, 1, 4], [7]]


def test_a_failed_verification_exits_with_1(
    llama_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    from ascend_infer import reference

    honest = reference.logits_isolated

    def negated(*arguments: Any) -> reference.ReferenceLogits:
        right = honest(*arguments)
        return dataclasses.replace(right, values=[-values for values in right.values])

    monkeypatch.setattr(reference, "logits_isolated", negated)
    exit_code, result = generate(
        capsys, "--model", str(llama_dir), "--prompt-token-ids", "3", "--verify"
    )
    assert exit_code == 1 and result["verify"]["reference"]["passed"] is False


def test_text_for_people(
    llama_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "160")
    arguments = ["--model", str(llama_dir), "--prompt-token-ids", "3,1", "--max-new-tokens", "4"]
    assert main(["generate", "--device", "cpu", *arguments]) == 0
    printed = capsys.readouterr().out
    assert "What ran" in printed and "device has no graphs" in printed and "cpu-verified" in printed


@pytest.mark.parametrize(
    "arguments, code",
    [
        ([], "AI-CLI-003"),
        (["--prompt", "a", "--prompt-token-ids", "1"], "AI-CLI-003"),
        (["--prompt", "a", "--eager", "--strict"], "AI-CLI-003"),
        (["--prompt-token-ids", "1", "--model", "nothing-like-it"], "AI-MODEL-005"),
        (["--prompt-token-ids", "1000"], "AI-MODEL-032"),
        (["--prompt-token-ids", ""], "AI-CLI-006"),
        (["--prompt-token-ids", "9" * 30], "AI-MODEL-032"),
        (["--prompt-token-ids", "1", "--num-blocks", "9" * 9], "AI-MODEL-035"),
        (["--prompt-token-ids", "1", "--strict"], "AI-CLI-003"),
        (["--prompt", "a"], "AI-MODEL-020"),
        (["--prompt-token-ids", "1", "--max-new-tokens", "500"], "AI-MODEL-031"),
        (["--prompt-token-ids", "1", "--num-blocks", "1", "--block-size", "16"], "AI-MODEL-030"),
        (["--prompt-token-ids", "1", "--temperature", "-1"], "AI-CLI-001"),
        (["--prompt-token-ids", "1", "--top-p", "2"], "AI-CLI-001"),
        (["--prompt-token-ids", "1", "--device", "npu"], "AI-CLI-002"),
    ],
    ids=str,
)
def test_wrong_use(
    arguments: list[str], code: str, llama_dir: Path, capsys: pytest.CaptureFixture[str]
):
    model = [] if "--model" in arguments else ["--model", str(llama_dir)]
    exit_code, result = generate(capsys, *model, *arguments)
    assert result["error"]["code"] == code and result["error"]["fix"]
    assert exit_code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["--top-k", "x"],
        ["--device", "tpu"],
        ["--dtype", "int4"],
        ["--buckets", "0"],
        ["--buckets", "1,x"],
        ["--block-size", "8"],
        ["--max-new-tokens", "0"],
        ["--buckets", ""],
        ["--prompt-token-ids", "-1"],
        ["--no-such-option"],
    ],
    ids=str,
)
def test_wrong_options(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    exit_code, result = generate(capsys, "--prompt", "a", *arguments)
    assert exit_code == 2 and result["error"]["code"] == "AI-CLI-006"
    assert arguments[0] in result["error"]["what"] and "--help" in result["error"]["fix"]
    assert main(["generate", "--prompt", "a", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and "AI-CLI-006" in printed.err


def test_corrupt_weights(llama_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    shutil.copytree(llama_dir, tmp_path / "m")
    weights = tmp_path / "m" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    exit_code, result = generate(capsys, "--model", str(tmp_path / "m"), "--prompt-token-ids", "1")
    assert exit_code == 2 and result["error"]["code"] == "AI-MODEL-011"


def test_an_unknown_exception_is_not_swallowed(
    llama_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    from ascend_infer import generation

    def broken(*_: object) -> None:
        raise ZeroDivisionError("a defect of ours")

    monkeypatch.setattr(generation, "open_session", broken)
    arguments = [
        "generate",
        "--device",
        "cpu",
        "--model",
        str(llama_dir),
        "--prompt-token-ids",
        "1",
    ]
    with pytest.raises(ZeroDivisionError):
        main(arguments)
    assert capsys.readouterr().out == ""
    with pytest.raises(ZeroDivisionError):
        main([*arguments, "--json"])
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "AI-CLI-008"


@pytest.mark.parametrize("as_json", [False, True])
def test_an_interrupt(
    as_json: bool,
    llama_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    from ascend_infer.engine import Engine

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Engine, "_decode", interrupted)
    arguments = [
        "generate",
        "--device",
        "cpu",
        "--model",
        str(llama_dir),
        "--prompt-token-ids",
        "1",
    ]
    assert main([*arguments, *(["--json"] if as_json else [])]) == 130
    printed = capsys.readouterr()
    if as_json:
        assert json.loads(printed.out)["error"]["code"] == "AI-CLI-007"
    else:
        assert printed.out == "" and "interrupted" in printed.err


def test_a_reference_that_fails_does_not_take_the_text_with_it(
    llama_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    from ascend_infer import reference

    monkeypatch.setattr(reference.sys, "executable", "/bin/false")
    arguments = ("--model", str(llama_dir), "--prompt-token-ids", "3", "--verify")
    exit_code, result = generate(capsys, *arguments)
    assert exit_code == 1 and result["output_token_ids"]
    assert result["verify"]["reference"]["error"]["code"] == "AI-MODEL-036"
    assert main(["generate", "--device", "cpu", *arguments]) == 1
    assert "AI-MODEL-036" in capsys.readouterr().out


def test_a_reference_that_cannot_be_is_refused_first(
    llama_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    from ascend_infer import generation, reference

    def without(name: str) -> None:
        return None

    monkeypatch.setattr(reference.importlib.util, "find_spec", without)
    monkeypatch.setattr(generation, "open_session", None)
    exit_code, result = generate(
        capsys, "--model", str(llama_dir), "--prompt-token-ids", "3", "--verify"
    )
    assert exit_code == 2 and result["error"]["code"] == "AI-MODEL-015"
