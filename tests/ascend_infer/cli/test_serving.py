"""`ascend-infer simulate-serving`: tables, JSON, presets, traces, plots, wrong use."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from ascend_infer.cli import main


@functools.cache
def help_text() -> str:
    with pytest.raises(SystemExit), contextlib.redirect_stdout(io.StringIO()) as text:
        main(["simulate-serving", "--help"])
    return text.getvalue()


def options_in(text: str) -> set[str]:
    return set(re.findall(r"--[a-z][a-z-]*[a-z]", text))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    def run_json(*arguments: str) -> tuple[int, Any]:
        status = main(["simulate-serving", "--json", *arguments])
        return status, json.loads(capsys.readouterr().out)

    return run_json


def test_the_defaults_compare_three_schedulers(run: Any) -> None:
    status, found = run()
    assert status == 0 and found["passed"]
    assert found["evidence"] == {"schedule": "simulated", "times": "modelled"}
    assert [r["batching"] for r in found["results"]] == ["static", "continuous", "chunked"]
    assert all(r["metrics"]["requests"] == 64 and r["slots"] == 8 for r in found["results"])
    assert all(r["assumptions"] and r["evidence"] for r in found["results"])


def test_a_preset_and_what_prevails_over_it(run: Any) -> None:
    _, preset = run("--preset", "textbook")
    static, continuous = preset["results"]
    assert static["slot_utilisation"] < 0.6 < 0.8 < continuous["slot_utilisation"]
    assert static["metrics"]["ttft"]["p99"] is None  # 64 samples tell no such percentile
    _, other = run("--preset", "textbook", "--slots", "4", "--step-ms", "2", "--seed", "7")
    assert other["results"][0]["slots"] == 4
    assert other["results"][0]["metrics"]["seconds"] != static["metrics"]["seconds"]
    assert run("--preset", "textbook")[1] == preset


def test_each_number_of_slots_with_each_batching(run: Any) -> None:
    _, found = run("--slots", "4,16,4", "--batching", "static,continuous", "--arrivals", "closed")
    pairs = [(r["batching"], r["slots"]) for r in found["results"]]
    assert pairs == [("static", 4), ("static", 16), ("continuous", 4), ("continuous", 16)]
    assert found["traffic"]["load"] == "closed loop, 16 at a time"
    seconds = [r["metrics"]["seconds"] for r in found["results"]]
    assert seconds[0] > seconds[1] > seconds[3] and seconds[0] > seconds[2] > seconds[3]


def test_the_chat_preset_fills_its_cache(run: Any) -> None:
    _, found = run("--preset", "chat")
    for result in found["results"]:
        cache = result["kv_cache"]
        assert cache["preemptions"] > 0 and cache["hit_share"] > 0.3
        assert 0.9 * cache["capacity"] < cache["peak"] <= cache["capacity"]


def test_slo_and_exit_code(run: Any) -> None:
    limits = ("--batching", "static", "--slo-ttft-ms", "1000", "--min-good-share")
    status, found = run(*limits, "0.9")
    assert status == 1 and not found["passed"]
    assert 0 < found["results"][0]["metrics"]["good_share"] < 0.9
    assert run(*limits, "0.01")[0] == 0


@pytest.mark.parametrize(
    "arrivals",
    [
        ("--arrivals", "closed", "--concurrency", "12", "--think-ms", "50"),
        ("--arrivals", "closed"),
        ("--arrivals", "poisson", "--rate", "2.5"),
        ("--arrivals", "bursts", "--burst-size", "20", "--burst-every-s", "3"),
    ],
)
def test_arrivals(run: Any, arrivals: tuple[str, ...]) -> None:
    status, found = run(*arrivals, "--output", "geometric:40")
    assert status == 0 and all(r["metrics"]["failed"] == 0 for r in found["results"])


def test_buckets_count_padding(run: Any) -> None:
    options = ("--batching", "continuous", "--slots", "12", "--context-ns", "50")
    _, found = run(*options, "--buckets", "1,2,4,8", "--eager-ms", "3")
    padding = found["results"][0]["padding"]
    steps = sum(padding["steps_by_bucket"].values()) + padding["eager_steps"]
    assert steps == found["results"][0]["decode_steps"] and padding["eager_steps"] > 0
    _, chunked = run("--batching", "chunked", "--buckets", "8", "--arrivals", "closed")
    result = chunked["results"][0]
    assert result["mixed_steps"] > 0
    graphs = result["padding"]["steps_by_bucket"]["8"]
    assert graphs + result["mixed_steps"] == result["decode_steps"]
    _, plain = run(*options)
    assert plain["results"][0]["padding"] is None
    assert plain["results"][0]["metrics"]["seconds"] < found["results"][0]["metrics"]["seconds"]


def test_a_model_on_a_chip_gives_times_and_blocks(run: Any) -> None:
    options = ("--requests", "30", "--batching", "chunked", "--model", "qwen2.5-7b")
    _, found = run(*options, "--device", "910B2")
    result, model = found["results"][0], found["model"]
    assert model["model"] == "qwen2.5-7b" and model["device"] == "Ascend910B2"
    assert result["kv_cache"]["capacity"] > 40_000
    assert any("bound of qwen2.5-7b on Ascend910B2" in s for s in result["assumptions"])
    _, slow = run(*options, "--device", "910B2", "--overhead-us", "1000", "--kv-blocks", "900")
    assert slow["results"][0]["kv_cache"]["capacity"] == 900
    one, other = (f["results"][0]["metrics"]["itl"]["median"] for f in (found, slow))
    assert abs(other - one - 1e-3) < 2e-4
    _, small = run(*options, "--device", "910B2", "--weight-dtype", "int4")
    assert small["results"][0]["metrics"]["seconds"] < result["metrics"]["seconds"]
    assert run("--requests", "5")[1]["model"] is None


def test_refusals_are_failures(run: Any) -> None:
    _, found = run("--batching", "continuous", "--kv-blocks", "60", "--max-waiting", "20")
    result = found["results"][0]
    assert result["refused"].keys() == {"longer than the KV cache", "too many waiting"}
    assert sum(result["refused"].values()) == result["metrics"]["failed"]


CSV = "arrival_s,prompt_tokens,output_tokens,prefix,prefix_tokens,user\n"


def test_a_trace_as_csv_and_as_json_lines(run: Any, tmp_path: Path) -> None:
    rows = [(10.5, 100, 20, "a", 64), (10.0, 120, 30, "", ""), (11.0, 90, 5, "a", 64)]
    table = tmp_path / "trace.csv"
    table.write_text(CSV + "".join(",".join(map(str, row)) + ",x\n" for row in rows))
    lines = tmp_path / "trace.jsonl"
    names = ("arrival_s", "prompt_tokens", "output_tokens", "prefix", "prefix_tokens")
    objects = [{k: v for k, v in zip(names, row) if v != ""} for row in rows]
    lines.write_text("\n".join(json.dumps(o) for o in objects))
    found = [run("--trace", str(path), "--batching", "continuous")[1] for path in (table, lines)]
    for result in found:
        result["traffic"].pop("load")
        result["results"][0]["metrics"]["definitions"].pop("load")
    assert found[0] == found[1]
    assert found[0]["traffic"] == {"requests": 3, "prompt_tokens": 310, "output_tokens": 55}
    assert found[0]["results"][0]["kv_cache"]["hit_tokens"] == 64


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("arrival_s,prompt_tokens\n1,2\n", 1),
        (CSV, 1),
        (CSV + "0,1,1,,,\n0,1,1\n", 3),
        (CSV + "nan,1,1,,,\n", 2),
        (CSV + "0,1.5,1,,,\n", 2),
        (CSV + "0,1,-1,,,\n", 2),
        (CSV + "0,9,1,a,,\n", 2),
        (CSV + f"0,{10**30},1,,,\n", 2),
        (CSV + "0,1,1,,,\n0,1,1,,," + 140_000 * "x" + "\n", 3),
        (140_000 * "x" + CSV, 1),
        (CSV + '0,1,1,"a\n,8,\n', 3),
        ("arrival_s,arrival_s,prompt_tokens,output_tokens\n0,9,1,1\n", 1),
        ('{"arrival_s": 0, "prompt_tokens": 1, "output_tokens": true}', 1),
        ('{"arrival_s": 0}\n', 1),
        ('{"arrival_s": 0, "prompt_tokens": 1, "output_tokens": 1}\n[1]\n', 2),
        ('{"arrival_s": 0, "prompt_tokens": 1, "output_tokens": 1}\n{"a"\n', 2),
    ],
)
def test_a_damaged_trace_names_its_line(run: Any, tmp_path: Path, text: str, line: int) -> None:
    path = tmp_path / "trace.txt"
    path.write_text(text)
    status, found = run("--trace", str(path))
    assert status == 2 and found["error"]["code"] == "AI-SERVE-003"
    assert found["error"]["where"] == f"trace.txt:{line}"


@pytest.mark.parametrize(
    "text",
    ["0,0,1,,,\n", "0,1,0,,,\n", "0,1,2000000,,,\n", "0,9,1,a,10,\n", "0,9,1,a,4,\n0,9,1,a,5,\n"],
)
def test_a_trace_that_cannot_be_meant(run: Any, tmp_path: Path, text: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(CSV + text)
    status, found = run("--trace", str(path))
    assert status == 2 and found["error"]["code"] == "AI-SERVE-001"


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        ("AI-CLI-003", ("--rate", "3")),
        ("AI-CLI-003", ("--arrivals", "poisson")),
        ("AI-CLI-003", ("--preset", "chat", "--burst-size", "3")),
        ("AI-CLI-003", ("--eager-ms", "3")),
        ("AI-CLI-003", ("--trace", "x.csv", "--requests", "3")),
        ("AI-CLI-004", ("--trace", "no such file")),
        ("AI-CLI-001", ("--slo-ttft-ms", "-1")),
        ("AI-CLI-001", ("--slo-tpot-ms", "nan")),
        ("AI-CLI-001", ("--min-good-share", "2")),
        ("AI-CLI-006", ("--slots", "0")),
        ("AI-CLI-006", ("--batching", ",")),
        ("AI-CLI-001", ("--plot", "figure.doc")),
        ("AI-CLI-006", ("--buckets", "0,1")),
        ("AI-SERVE-001", ("--arrivals", "poisson", "--rate", "0")),
        ("AI-SERVE-001", ("--arrivals", "poisson", "--rate", "inf")),
        ("AI-SERVE-001", ("--arrivals", "closed", "--think-ms", "nan")),
        ("AI-SERVE-001", ("--prefixes", "3")),
        ("AI-SERVE-001", ("--prefixes", "3", "--prefix-tokens", "99999999")),
        ("AI-SERVE-001", ("--requests", "999999999999")),
        ("AI-SERVE-001", ("--arrivals", "poisson", "--rate", "1e-300")),
        ("AI-SERVE-001", ("--arrivals", "bursts", "--burst-every-s", "1e300")),
        ("AI-SERVE-001", ("--arrivals", "closed", "--think-ms", "1e300")),
        ("AI-SERVE-005", ("--step-ms", "1e300")),
        ("AI-SERVE-002", ("--output", "normal:3")),
        ("AI-SERVE-002", ("--output", "0")),
        ("AI-SERVE-002", ("--output", "uniform:5")),
        ("AI-SERVE-002", ("--output", "uniform:5-2")),
        ("AI-SERVE-002", ("--prompt", "discrete:1=0")),
        ("AI-SERVE-002", ("--prompt", "lognormal:nan,1")),
        ("AI-SERVE-002", ("--prompt", "")),
        ("AI-SERVE-004", ("--batching", "dynamic")),
        ("AI-SERVE-004", ("--token-budget", "8")),
        ("AI-SERVE-004", ("--watermark", "1")),
        ("AI-SERVE-004", ("--watermark", "nan")),
        ("AI-SERVE-004", ("--block-size", "100000")),
        ("AI-SERVE-004", ("--eager-ms", "-1", "--buckets", "8")),
        ("AI-CLI-003", ("--model", "qwen2.5-7b", "--step-ms", "3")),
        ("AI-CLI-003", ("--device", "910B3")),
        ("AI-CLI-003", ("--overhead-us", "3")),
        ("AI-DEV-010", ("--model", "qwen2.5-7b", "--device", "911")),
        ("AI-EST-005", ("--model", "qwen2.5-7c")),
        ("AI-SERVE-004", ("--model", "deepseek-v3", "--memory-gib", "64")),
        ("AI-SERVE-005", ("--model", "qwen2.5-7b", "--overhead-us", "nan")),
        ("AI-SERVE-005", ("--step-ms", "0")),
        ("AI-SERVE-005", ("--step-ms", "nan")),
        ("AI-SERVE-005", ("--prefill-us", "-1")),
        ("AI-SERVE-005", ("--context-ns", "inf")),
        ("AI-SERVE-006", ("--requests", "100000", "--output", "1000000")),
    ],
)
def test_wrong_use_has_a_code(run: Any, code: str, arguments: tuple[str, ...]) -> None:
    status, found = run(*arguments)
    assert status == 2 and found["error"]["code"] == code and found["error"]["fix"]
    # A fix names options that the command has.
    assert options_in(found["error"]["fix"]) <= options_in(help_text())


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_a_plot(run: Any, tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / f"schedule.{suffix}"
    assert run("--requests", "12", "--plot", str(path))[0] == 0
    head = path.read_bytes()[:5]
    assert head == (b"\x89PNG\r" if suffix == "png" else b"<?xml")
    assert list(tmp_path.iterdir()) == [path]
    status, found = run("--plot", str(tmp_path / "none" / "plot.png"))
    assert status == 2 and found["error"]["code"] == "AI-CLI-004"


def test_a_plot_without_matplotlib(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    status, found = run("--plot", "schedule.png")
    assert status == 2 and found["error"]["code"] == "AI-CLI-009"
    assert "pip install" in found["error"]["fix"]


def test_the_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate-serving", "--buckets", "4,8", "--slo-ttft-ms", "2000"]) == 0
    out = capsys.readouterr().out
    for text in ("TTFT p99", "static", "chunked", "slot use", "prefix hits", "padded rows"):
        assert text in out
    assert "modelled" in out and "simulated" in out and "assumed: " in out
