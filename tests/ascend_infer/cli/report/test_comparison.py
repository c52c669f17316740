"""`report compare`, `report baseline`, `report gate`: what is printed, and exit codes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ascend_infer.cli import main
from profiling.conditions import MEANING
from tests.ascend_infer.cli.report import simulated_steps
from tests.profiling import fixtures

pytest.importorskip("scipy")


def profile(folder: Path, *times: float, name: str = "rms_norm_kernel") -> str:
    """A tree of `msprof op` with one launch for each time."""
    for number, time in enumerate(times):
        text = fixtures.BASIC_INFO.replace("12.250000", str(time))
        text = text.replace("rms_norm_kernel_mix_aic", name)
        fixtures.write(folder / name / str(number), {"OpBasicInfo.csv": text})
    return str(folder)


def called(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = main(["report", *arguments])
    return status, capsys.readouterr().out


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    status, out = called(capsys, *arguments, "--json")
    return status, json.loads(out)


def test_two_profiles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = profile(tmp_path / "a", 10, 10.1, 9.9, 10)
    after = profile(tmp_path / "b", 12, 12.1, 11.9, 12)
    status, out = called(capsys, "compare", before, after)
    assert status == 0
    assert out.startswith("Not comparable: ")
    assert "task time (us), npu-measured" in out and "slower" in out
    assert "4 and 4 launches" in out and "Yuen" in out
    status, told = as_json(capsys, "compare", before, after)
    (matched,) = told["matched"]
    assert matched["verdict"] == "slower" and 1.15 < matched["interval"][0] < 1.2
    assert matched["before"]["where"].endswith("rms_norm_kernel/0/OpBasicInfo.csv:2")


def test_what_changed_comes_before_what_is_larger(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--top` leaves out kernels of which nothing can be said, not the only one that is slower."""
    for side, short in (("a", 10.0), ("b", 12.0)):
        for name, time in (("short", short), ("long", 900.0), ("longer", 950.0)):
            noisy = (time, time * 1.01, time * 0.99, time * 1.005)
            profile(tmp_path / side, *noisy, name=name)
    status, out = called(capsys, "compare", str(tmp_path / "a"), str(tmp_path / "b"), "--top", "1")
    assert status == 0
    assert "task time (us), npu-measured: 1 slower, 2 within noise" in out
    assert "short" in out and "longer" not in out and "2 more" in out


def test_several_runs_of_each_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = [profile(tmp_path / f"a{n}", 10 + n / 50, 10.1) for n in range(3)]
    after = [profile(tmp_path / f"b{n}", 8 + n / 50, 8.1) for n in range(2)]
    status, told = as_json(capsys, "compare", *before, "--with", *after)
    assert status == 0
    (matched,) = told["matched"]
    assert (matched["before"]["count"], matched["before"]["of"]) == (3, "run")
    assert matched["verdict"] == "faster"


def test_one_launch_gives_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out = called(
        capsys, "compare", profile(tmp_path / "a", 10), profile(tmp_path / "b", 20)
    )
    assert status == 0
    assert "no verdict: 1 launch before and 1 launch after: the noise is not known" in out


def test_conditions_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conditions = tmp_path / "conditions.json"
    conditions.write_text(json.dumps(dict.fromkeys(MEANING, "as always")))
    a, b = profile(tmp_path / "a", 10, 11), profile(tmp_path / "b", 10, 11)
    _, out = called(capsys, "compare", a, b, "--conditions", str(conditions))
    assert "Not comparable" not in out


def test_a_gate_from_baseline_to_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "baseline.json")
    good = profile(tmp_path / "a", 10, 10.1, 9.9, 10)
    profile(tmp_path / "a", 5, 5.05, name="attention_kernel")
    status, out = called(capsys, "baseline", good, "-o", file)
    assert status == 0 and "2 figures of kernels from 1 runs" in out
    assert called(capsys, "gate", "--baseline", file, good)[0] == 0
    slow = profile(tmp_path / "b", 12, 12.1, 11.9)
    profile(tmp_path / "b", 1, 1.1, name="a_new_kernel")
    status, out = called(capsys, "gate", "--baseline", file, "--threshold", "5%", slow)
    assert status == 1
    assert "FAILED: 1 regression, 1 vanished, 1 new; threshold 5.0%" in out
    status, told = as_json(capsys, "gate", "--baseline", file, "--threshold", "0.5", slow)
    assert status == 1 and not told["passed"]
    assert [finding["state"] for finding in told["findings"]] == ["vanished", "passed", "new"]


def test_a_gate_on_one_metric(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "baseline.json")
    good = profile(tmp_path / "a", 10, 10.1)
    assert called(capsys, "baseline", good, "-o", file)[0] == 0
    assert called(capsys, "gate", "--baseline", file, "--metric", "TASK", good)[0] == 0
    status, out = called(capsys, "gate", "--baseline", file, "--metric", "bytes", good)
    assert status == 1 and "nothing could be compared" in out


def test_without_a_baseline_the_gate_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = profile(tmp_path / "a", 10, 10.1)
    status, told = as_json(capsys, "gate", "--baseline", str(tmp_path / "none"), good)
    assert status == 1 and told["error"]["code"] == "AI-BENCH-022"


def test_damage_fails_the_gate_and_makes_no_baseline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "baseline.json"
    good = profile(tmp_path / "a", 10, 10.1)
    called(capsys, "baseline", good, "-o", str(file))
    fixtures.write(tmp_path / "a", {"PipeUtilization.csv": "block_id,aic_time(us)\n0\n"})
    status, out = called(capsys, "gate", "--baseline", str(file), good)
    assert status == 1 and "files are damaged" in out and "AI-PROF-024" in out
    before = file.read_bytes()
    status, told = as_json(capsys, "baseline", good, "-o", str(file))
    assert status == 2 and told["error"]["code"] == "AI-BENCH-025"
    assert file.read_bytes() == before
    assert called(capsys, "compare", good, good)[0] == 1


def test_without_scipy_counts_are_compared_and_times_are_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    a, b = profile(tmp_path / "a", 10, 11), profile(tmp_path / "b", 10, 11)
    status, told = as_json(capsys, "compare", a, b)
    assert status == 2 and told["error"]["code"] == "AI-BENCH-021"
    simulated = fixtures.write(tmp_path / "c", {"core0_instr_exe.csv": fixtures.INSTRUCTIONS})
    status, told = as_json(capsys, "compare", str(simulated), str(simulated))
    assert status == 0 and {m["verdict"] for m in told["matched"]} == {"same"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["compare", "a"],
        ["compare", "a", "b", "c"],
        ["gate", "a"],
        ["gate", "--baseline", "x", "--threshold", "-5%", "a"],
        ["gate", "--baseline", "x", "--threshold", "5", "a"],
        ["gate", "--baseline", "x", "--threshold", "nan", "a"],
        ["baseline", "a"],
    ],
)
def test_wrong_use(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    status, told = as_json(capsys, *arguments)
    assert status == 2 and told["error"]["code"] == "AI-CLI-006"


@pytest.mark.parametrize("command", ["compare", "baseline"])
def test_a_figure_that_nothing_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """A misspelt --metric compares nothing, and must not look as if nothing had changed."""
    good, file = profile(tmp_path / "a", 10, 10.1), tmp_path / "baseline.json"
    options = {"compare": [good], "baseline": ["-o", str(file)]}
    status, told = as_json(capsys, command, good, *options[command], "--metric", "tiem")
    assert not file.exists() and status == 2 and told["error"]["code"] == "AI-CLI-001"
    assert "task time" in told["error"]["rule"]


def test_simulated_launches_are_compared_by_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = str(simulated_steps.profile(tmp_path / "before"))
    wider = {**simulated_steps.LAYER, "silu_and_mul": {"rows": 4, "inter": 320}}
    after = str(simulated_steps.profile(tmp_path / "after", wider))
    status, told = as_json(capsys, "compare", before, after)
    assert status == 0
    found = {(m["kernel"]["name"], m["metric"]): m for m in told["matched"]}
    metrics = {metric for _, metric in found}
    assert metrics == {
        *("read from global memory", "written to global memory"),
        *("instructions", "modelled length"),
    }
    read = found["silu_and_mul", "read from global memory"]
    assert (read["verdict"], read["ratio"], read["evidence"]) == ("more", 2.0, "simulated")
    assert found["silu_and_mul", "modelled length"]["evidence"] == "modelled"
    assert found["rms_norm", "instructions"]["verdict"] == "same"
    assert {m["unit"] for m in told["matched"]} == {"bytes", "", "cycles"}
    baseline = str(tmp_path / "baseline.json")
    assert called(capsys, "baseline", before, "-o", baseline)[0] == 0
    assert called(capsys, "gate", "--baseline", baseline, before)[0] == 0
    status, told = as_json(capsys, "gate", "--baseline", baseline, after)
    assert status == 1
    failed = {finding["kernel"]["name"] for finding in told["findings"] if finding["fails"]}
    assert failed == {"silu_and_mul"}
    measured = profile(tmp_path / "device", 10, 10.1, name="rms_norm")
    assert called(capsys, "gate", "--baseline", baseline, measured)[0] == 1
