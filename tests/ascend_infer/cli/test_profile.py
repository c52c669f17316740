"""`profile show`: tables, the JSON object and exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ascend_infer.cli import main
from tests.profiling import fixtures


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = main(["profile", "show", *arguments])
    return status, capsys.readouterr().out


def as_json(capsys: pytest.CaptureFixture[str], path: Path) -> dict[str, Any]:
    status, out = shown(capsys, str(path), "--json")
    assert status == 0
    parsed: dict[str, Any] = json.loads(out)
    return parsed


def test_tables_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fixtures.write(tmp_path, {"a.csv": fixtures.KERNEL_DETAILS_1, **fixtures.FLAT})
    status, out = shown(capsys, str(tmp_path), "--blocks", "--top", "2")
    assert status == 0
    assert "12.25" in out and "1,650/1,800" in out and "88.3%" in out
    assert "vector0" in out and "npu-measured" in out
    assert "2 more; --top shows them" in out
    assert "! clock: the cores ran at 91.7%" in out and "OpBasicInfo.csv:2" in out


def test_json_of_every_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = as_json(capsys, fixtures.write(tmp_path, {**fixtures.ALL}))
    assert {file["kind"] for file in told["files"]} >= {"kernel_details", "trace", "instr_exe"}
    kernel = told["kernels"][0]
    duration = next(f for f in kernel["info"] if f["column"] == "task_duration_us")
    assert (duration["value"], duration["unit"]) == (12.25, "us")
    assert duration["evidence"] == "npu-measured"
    tasks = next(tasks for tasks in told["tasks"] if tasks["tasks"] == 4)
    assert tasks["operators"][0]["operator"] == "MatMulV2"
    for sentences in (kernel["sentences"], tasks["sentences"]):
        assert sentences and all(sentence["refs"] for sentence in sentences)


def test_a_simulators_time_is_not_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fixtures.write(tmp_path, {"core0_instr_exe.csv": fixtures.INSTRUCTIONS})
    assert "running_time" not in shown(capsys, str(tmp_path))[1]
    told = as_json(capsys, tmp_path)
    assert told["tables"][0]["rows"][0]["cycles"] == 2944
    assert "1.635556" not in json.dumps(told)
    fixtures.write(tmp_path, {"trace.json": fixtures.SIMULATOR_TRACE})
    track = as_json(capsys, tmp_path / "trace.json")["traces"][0]["tracks"][0]
    assert (track["track"], track["total"], track["share"]) == ("VECTOR", None, 1.0)


@pytest.mark.parametrize(("encoding", "option"), [("ascii", "--blocks"), ("utf-8", "--json")])
def test_names_that_the_terminal_cannot_show(tmp_path: Path, encoding: str, option: str) -> None:
    text = '[{"ph":"X","name":"a","pid":"\\udfff","tid":"转换","ts":1,"dur":2.5}]'
    fixtures.write(tmp_path, {"trace.json": text})
    done = subprocess.run(
        [sys.executable, "-m", "ascend_infer", "profile", "show", str(tmp_path), option],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )
    assert done.returncode == 0, done.stderr
    out = done.stdout.decode(encoding)
    assert "\\udfff" in out and "2.5" in out


def test_exit_code_of_damage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fixtures.write(tmp_path, {"op_statistic.csv": fixtures.OP_STATISTIC + "0,half\n"})
    status, out = shown(capsys, str(tmp_path))
    assert status == 1
    assert "TransData" in out and "AI-PROF-024" in out


def test_exit_code_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "show", str(tmp_path)]) == 2
    assert "AI-PROF-020" in capsys.readouterr().err
