"""`ascend-infer estimate buckets`: plans, checks, exit codes, the JSON object."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ascend_infer.cli import main

CONFIG = {
    "hidden_size": 5120,
    "intermediate_size": 25600,
    "num_hidden_layers": 64,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
}


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    return str(path)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    def run_json(*arguments: str) -> tuple[int, Any]:
        status = main(["estimate", "buckets", "--json", *arguments])
        return status, json.loads(capsys.readouterr().out)

    return run_json


def kinds(result: Any) -> set[str]:
    return {warning["kind"] for warning in result["warnings"]}


def test_a_plan_for_a_histogram(run: Any) -> None:
    status, result = run("--histogram", "3:50,9:40,16:1", "--graphs", "3", "--max-batch", "20")
    assert status == 0 and result["passed"] and result["evidence"] == "modelled"
    assert result["sizes"] == [3, 9, 20] and result["capture_order"] == [20, 9, 3]
    assert result["padding"]["padded_rows"] == 4
    assert result["padding"]["padded_by_bucket"] == {"3": 0, "9": 0, "20": 4}
    assert [point["graphs"] for point in result["frontier"]] == [1, 2, 3]
    assert result["cost"] == result["frontier"][-1]["cost"] == 150 + 360 + 20


def test_files_say_the_same_as_words(run: Any, tmp_path: Path) -> None:
    trace = tmp_path / "trace.txt"
    trace.write_text("3\n3\n9\n16\n")
    histogram = tmp_path / "steps.json"
    histogram.write_text('{"3": 2, "9": 1, "16": 1}')
    results = [
        run("--graphs", "2", *source)[1]
        for source in (
            ("--trace", str(trace)),
            ("--trace", "3,3,9,16"),
            ("--histogram", str(histogram)),
            ("--histogram", "16:1 9:1 3:2"),
        )
    ]
    assert all(result == results[0] for result in results)
    assert results[0]["max_batch"] == 16


def test_the_default_number_of_graphs_is_that_of_vllm_ascend(run: Any) -> None:
    assert len(run("--max-batch", "64")[1]["sizes"]) == 11
    _, result = run("--max-batch", "256", "--piecewise", "--layers", "64", "--aiv")
    assert len(result["sizes"]) == 26
    many = ("--max-batch", "256", "--piecewise", "--layers", "64", "--comm-groups", "1")
    _, result = run(*many, "--aiv")
    assert len(result["sizes"]) == 13 == result["streams"]["most_sizes"]


def test_multiples_only(run: Any) -> None:
    _, result = run("--max-batch", "30", "--multiple-of", "4", "--graphs", "3")
    assert result["sizes"][-1] == 32 and all(size % 4 == 0 for size in result["sizes"])


def test_rows_that_are_free(run: Any) -> None:
    cost = ("--free-rows", "16", "--step-cost", "100", "--row-cost", "0.5")
    _, result = run("--max-batch", "20", "--graphs", "8", *cost)
    assert result["sizes"] == [16, 17, 18, 19, 20]
    assert result["cost"] == 20 * 100 + 0.5 * (1 + 2 + 3 + 4)


@pytest.mark.parametrize(
    "arguments, status, kind",
    [
        (("--max-batch", "12", "--vllm-defaults"), 1, "off-stride-max-batch"),
        (("--max-batch", "16", "--vllm-defaults"), 0, None),
        (("--max-batch", "12", "--vllm-defaults", "vllm-exact"), 0, "unreachable-bucket"),
        (("--max-batch", "12", "--sizes", "4,8"), 1, "off-stride-max-batch"),
        (("--max-batch", "12", "--sizes", "4 8 16", "--dispatch", "runner"), 0, None),
        (("--sizes", "1,2,4,8"), 0, None),
        (("--sizes", "2,3", "--histogram", "3:9"), 0, "unused-bucket"),
        (("--sizes", "2,3,8", "--free-rows", "3"), 0, "never-wins"),
        (("--sizes", "1,2,4,8", "--piecewise", "--layers", "700"), 1, "streams-exceeded"),
    ],
)
def test_lists_that_are_checked(
    run: Any, arguments: tuple[str, ...], status: int, kind: str | None
) -> None:
    found, result = run(*arguments)
    assert (found, result["passed"]) == (status, status == 0)
    assert kind is None or kind in kinds(result)
    assert "frontier" not in result


def test_a_model_adds_memory_and_attention(run: Any, config: str) -> None:
    model = ("--max-batch", "32", "--model", config, "--tensor-parallel", "4")
    _, short = run(*model, "--context", "1000")
    assert short["memory"]["inputs"] == 32 * (24 + 4 * 8)
    assert "attention-dominates" not in kinds(short)
    _, long = run(*model, "--context", "32768")
    assert "attention-dominates" in kinds(long)
    assert long["step_bytes"]["kv"] == 32 * 32768 * 2 * 64 * 2 * 128 * 2
    assert long["step_bytes"]["ratio"] > 1 > short["step_bytes"]["ratio"]
    _, small_cache = run(*model, "--context", "32768", "--kv-bits", "2")
    assert "attention-dominates" not in kinds(small_cache)
    assert short["streams"]["streams_per_size"] == 3
    assert run("--max-batch", "32")[1]["memory"] is None


def test_two_axes(run: Any) -> None:
    trace = "4:1 4:1 4:9 8:2 8:9"
    _, result = run("--trace", trace, "--max-blocks", "10", "--graphs", "4")
    shapes = result["grid"]["shapes"]
    assert len(shapes) <= 4 and shapes[-1] == [8, 10]
    # 4x1 twice, 4x9, 8x2; the last needs the corner.
    assert result["grid"]["cells"] == 4 + 4 + 36 + 16 + 80
    assert result["grid"]["cells_full_width"] == 3 * 40 + 2 * 80
    _, assumed = run("--max-batch", "8", "--max-blocks", "600", "--graphs", "4")
    assert assumed["grid"]["cells"] < assumed["grid"]["cells_full_width"]


def test_streams_of_two_axes(run: Any) -> None:
    wide = ("--max-batch", "2", "--max-blocks", "9", "--graphs", "16")
    status, result = run(*wide, "--piecewise", "--layers", "200")
    assert status == 1 and len(result["grid"]["shapes"]) > 9 > len(result["sizes"])
    assert kinds(result) == {"streams-exceeded"}


def test_tables_for_people(capsys: pytest.CaptureFixture[str], config: str) -> None:
    status = main(
        ["estimate", "buckets", "--max-batch", "20", "--graphs", "5", "--model", config]
        + ["--context", "60000", "--max-blocks", "6"]
    )
    out = capsys.readouterr().out
    assert status == 0
    assert "17-20" in out and "30 padded rows, 12.5%" in out and "modelled" in out
    assert "of 1,984 per device" in out and "kv read" in out and "paged_decode_attention" in out
    assert "warning: attention-dominates" in out and "capture order: 20,16,12,8,4" in out
    assert "capture shapes over two axes" in out


@pytest.mark.parametrize(
    "arguments, code",
    [
        ((), "AI-CLI-003"),
        (("--max-batch", "0"), "AI-CLI-006"),
        (("--max-batch", "8", "--sizes", "1", "--graphs", "2"), "AI-CLI-006"),
        (("--max-batch", "8", "--sizes", "8", "--multiple-of", "2"), "AI-CLI-003"),
        (("--max-batch", "8", "--context", "4096"), "AI-CLI-003"),
        (("--histogram", "8"), "AI-GRAPH-040"),
        (("--trace", "no-such-file.txt"), "AI-GRAPH-040"),
        (("--trace", "3 4", "--max-blocks", "5"), "AI-GRAPH-040"),
        (("--max-batch", "8", "--histogram", "9:1"), "AI-GRAPH-041"),
        (("--max-batch", "8", "--row-cost", "-1"), "AI-GRAPH-042"),
        (("--max-batch", "8", "--soc", "H100"), "AI-GRAPH-042"),
        (("--max-batch", "8", "--piecewise"), "AI-GRAPH-042"),
        (("--max-batch", "8", "--model", "no-such-model"), "AI-MODEL-005"),
    ],
)
def test_wrong_use(run: Any, arguments: tuple[str, ...], code: str) -> None:
    status, result = run(*arguments)
    assert (status, result["error"]["code"]) == (2, code)


def test_a_file_that_is_no_text(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "trace.bin"
    path.write_bytes(b"\xff\xfe\x00")
    status, result = run("--trace", str(path))
    assert (status, result["error"]["code"]) == (2, "AI-CLI-004")
