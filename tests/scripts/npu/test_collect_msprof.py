"""scripts/npu/collect_msprof.py with a stand-in for msprof."""

from __future__ import annotations

import json
import os
import stat
import sys

import pytest

#: Notes its arguments, runs the application behind its options, and leaves what it is told to.
MSPROF = """#!{python}
import json, os, pathlib, subprocess, sys
arguments = sys.argv[2:]
pathlib.Path({notes!r}).write_text(json.dumps(sys.argv[1:]))
output = next(a.partition("=")[2] for a in arguments if a.startswith("--output="))
application = [a for a in arguments[arguments.index({python!r}):]]
subprocess.run(application, check=True)
for name, text in json.loads(os.environ["COLLECTED"]).items():
    file = pathlib.Path(output, name)
    file.parent.mkdir(parents=True)
    file.write_text(text)
sys.exit(int(os.environ.get("STATUS", "0")))
"""
HEADER = "Op Name,Op Type,Task Duration(us),Block Dim,Mix Block Dim,Device Id,Pid,"


@pytest.fixture
def msprof(tmp_path, monkeypatch):
    """Installs the stand-in; returns a function that reads its arguments."""
    tool, notes = tmp_path / "bin" / "msprof", tmp_path / "notes.json"
    tool.parent.mkdir()
    tool.write_text(MSPROF.format(python=sys.executable, notes=str(notes)))
    tool.chmod(tool.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    monkeypatch.delenv("ASCEND_RT_VISIBLE_DEVICES", raising=False)
    monkeypatch.chdir(tmp_path)
    return lambda: json.loads(notes.read_text())


@pytest.fixture
def collect(program, call, monkeypatch):
    def run(*arguments: str, files: dict[str, str] | None = None) -> tuple[int, str, str]:
        monkeypatch.setenv("COLLECTED", json.dumps(files or {}))
        return call(program("collect_msprof"), "--device", "sim", *arguments)

    return run


def test_the_command_is_msprofs_with_the_application_at_the_end(msprof, collect):
    files = {
        "OPPROF_20261130_ABC/OpBasicInfo.csv": f"{HEADER}\nrms_norm_kernel,vector,3.25,8,NA,0,"
    }
    status, printed, error = collect("--launch-count", "2", "--warm-up", "7", files=files)
    assert status == 0, error
    assert "rms_norm_kernel" in printed
    assert "3.25" in printed
    assert "npu-measured" in printed
    arguments = msprof()
    assert arguments[:2] == ["op", "--output=msprof"]
    assert {"--kernel-name=rms_norm_kernel*", "--launch-count=2", "--warm-up=7"} <= {*arguments}
    application = arguments[arguments.index(sys.executable) :]
    assert "--launch" in application
    assert not any(a.startswith("--") for a in arguments[: arguments.index("op")])


def test_files_of_several_kernels_are_found(msprof, collect):
    folder = "OPPROF_20261130_ABC/rms_norm_kernel"
    files = {
        f"{folder}/{n}/OpBasicInfo_2026113010000000{n}.csv": f"{HEADER}\nkernel_{n},mix,{n}.5,8,"
        for n in (1, 2)
    }
    status, printed, _ = collect(files=files)
    assert status == 0
    assert "kernel_1" in printed
    assert "2.5" in printed


def test_nothing_collected_is_a_failure(msprof, collect):
    status, _, error = collect(files={"OPPROF_20261130_ABC/OpBasicInfo.csv": HEADER + "\n"})
    assert status == 1
    assert "AI-PROF-003" in error


def test_files_of_an_earlier_collection_do_not_count(msprof, collect, tmp_path):
    earlier = tmp_path / "msprof" / "OPPROF_20250101_OLD" / "OpBasicInfo.csv"
    earlier.parent.mkdir(parents=True)
    earlier.write_text(f"{HEADER}\nold_kernel,vector,1.0,8,")
    status, _, error = collect()
    assert status == 1
    assert "AI-PROF-003" in error


def test_a_failing_msprof_is_named(msprof, collect, monkeypatch):
    monkeypatch.setenv("STATUS", "3")
    status, _, error = collect()
    assert status == 1
    assert "AI-PROF-002" in error
    assert "exit code 3" in error


def test_an_msprof_that_cannot_be_started_is_named(msprof, collect, tmp_path):
    (tmp_path / "bin/msprof").write_text("no program\n")
    status, _, error = collect()
    assert status == 1
    assert "AI-PROF-002" in error and "cannot be started" in error


@pytest.mark.parametrize("output", ["a-file", "a-file/below"])
def test_an_output_that_cannot_be_written_is_wrong_use(msprof, collect, tmp_path, output):
    (tmp_path / "a-file").touch()
    status, _, error = collect("--output", output)
    assert status == 2
    assert "AI-CLI-004" in error and output in error


def test_a_variable_that_profiling_does_not_support_is_refused(msprof, collect, monkeypatch):
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "1")
    status, _, error = collect()
    assert status == 2
    assert "AI-PROF-004" in error


def test_without_msprof_only_a_dry_run_works(collect, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    status, _, error = collect()
    assert status == 2
    assert "AI-PROF-001" in error
    status, printed, _ = collect("--dry-run", "--op", "silu_and_mul")
    assert status == 0
    assert printed.startswith("msprof op ")
    assert "'--kernel-name=silu_and_mul_kernel*'" in printed


@pytest.mark.parametrize(
    "arguments",
    [
        ("--op", "rms"),
        ("--case", "nobody-decode-1"),
        ("--launch-count", "0"),
        ("--launch-count", "5001"),
        ("--warm-up", "501"),
        ("--output", "x" * 201),
    ],
)
def test_what_msprof_would_refuse_is_refused_before(collect, arguments):
    status, _, error = collect("--dry-run", *arguments)
    assert status == 2
    assert "AI-CLI-001" in error
    assert arguments[0] in error.partition("\n")[0]
