"""`profile op|simulator|app` on the command line, with a stand-in for msprof."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ascend_infer.cli import main
from kernels_npu.spec import OPERATORS, kernel_name
from profiling import manifest
from profiling.provenance import conditions_of
from profiling.records import Profile
from tests.profiling import fake_msprof

#: A profile without files, and what a report adds to the conditions.
EMPTY = {"path": "", "kernels": (), "tasks": (), "tables": (), "traces": (), "notes": ()}
TOLD = {"aggregation": "one launch", "baseline": "none"}


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = fake_msprof.install(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    monkeypatch.setenv("PYTHONPATH", str(fake_msprof.ROOT))
    for name in ("ASCEND_RT_VISIBLE_DEVICES", "ASCEND_HOME_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return folder


def dry_run(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(["profile", *arguments[:1], "--dry-run", *arguments[1:]]) == 0
    return shlex.split(capsys.readouterr().out)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["profile", *arguments]) == 2
    return capsys.readouterr().err


def test_a_command_with_our_kernels_names(capsys: pytest.CaptureFixture[str]) -> None:
    command = dry_run(capsys, "op", "--warm-up", "7", "--", "python", "a b.py", "--json")
    assert command[:3] == ["msprof", "op", "--output=msprof"]
    assert command[-3:] == ["python", "a b.py", "--json"]
    names = "|".join(f"{kernel_name(operator)}*" for operator in OPERATORS)
    assert f"--kernel-name={names}" in command
    assert {"--launch-count=100", "--warm-up=7"} <= {*command}


def test_names_that_are_given_count(capsys: pytest.CaptureFixture[str]) -> None:
    command = dry_run(capsys, "op", "--kernel-name=main*", "--launch-count=3", "./app", "-n", "1")
    assert command[3:] == ["--kernel-name=main*", "--launch-count=3", "./app", "-n", "1"]
    command = dry_run(capsys, "op", "--config", "kernel.json")
    assert command[3:] == ["--config=kernel.json"]


def test_one_of_our_operators(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--op", "paged_decode_attention", "--launch-count=2")
    command = dry_run(capsys, "op", *arguments, "--launch-skip-before-match=3")
    assert "--kernel-name=paged_decode_attention_kernel*" in command
    application = command[command.index(sys.executable) :]
    assert application[1:3] == ["-m", "ascend_infer.operator_launch"]
    assert {"--op=paged_decode_attention", "--launches=5", "--device=npu"} <= {*application}


def test_a_simulation_names_its_chip(capsys: pytest.CaptureFixture[str]) -> None:
    command = dry_run(capsys, "simulator", "--soc", "Ascend910B3", "--", "./app")
    assert command[:3] == ["msprof", "op", "simulator"]
    assert "--soc-version=Ascend910B3" in command


def test_json_of_a_dry_run(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--dry-run", "--json", "--aic-metrics=Source"]
    assert main(["profile", "op", *options, "--", "./app"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["command"][-1] == "./app"
    assert "the chip is not known" in told["warnings"][0]


def test_a_dry_run_needs_nothing() -> None:
    code = (
        "import sys; from ascend_infer.cli import main\n"
        "main(['profile', 'op', '--dry-run', '--op', 'rms_norm', '--soc', 'A2'])\n"
        "assert not {'numpy', 'torch', 'polars'} & set(sys.modules)\n"
    )
    environment = {"PYTHONPATH": str(fake_msprof.ROOT), "PATH": ""}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("op", "--dry-run"), "AI-PROF-039"),
        (("op", "--dry-run", "--op", "rms"), "AI-CLI-001"),
        (("op", "--dry-run", "--op", "rms_norm", "--case", "nobody-decode-1"), "AI-CLI-001"),
        (("op", "--dry-run", "--op", "rms_norm", "--", "./app"), "AI-CLI-003"),
        (("op", "--dry-run", "--case", "llama-3-8b-decode-32", "--", "./app"), "AI-CLI-003"),
        (("op", "--dry-run", "--launch-count", "0", "--", "./app"), "AI-PROF-034"),
        (("op", "--dry-run", "--op", "rms_norm", "--launch-count", "x"), "AI-PROF-034"),
        (("op", "--dry-run", "--output", "x" * 201, "--", "./app"), "AI-PROF-034"),
        (("op", "--dry-run", "--soc", "H200", "--", "./app"), "AI-PROF-036"),
        (("op", "--dry-run", "--soc=310P3", "--aic-metrics=Source", "./app"), "AI-PROF-036"),
        (("op", "--dry-run", "--application=./app"), "AI-PROF-035"),
        (("op", "--time-limit", "0", "--", "./app"), "AI-CLI-006"),
        (("simulator", "--timeout", "an hour", "--", "./app"), "AI-PROF-034"),
        (("simulator", "--warm-up=1", "--", "./app"), "AI-CLI-006"),
        (("app", "--dry-run", "--", "./app", "a b"), "AI-PROF-039"),
    ],
)
def test_wrong_use(
    arguments: tuple[str, ...], code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code in refused(capsys, *arguments)


def test_without_msprof(capsys: pytest.CaptureFixture[str], monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ASCEND_RT_VISIBLE_DEVICES", raising=False)
    assert "AI-PROF-001" in refused(capsys, "op", "--", sys.executable, "-c", "1")
    assert not list(tmp_path.iterdir())


def test_the_attention_kernel_is_one_command(
    stand_in: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The command of the README, whose kernel runs on the simulated NPU in place of a device."""
    monkeypatch.setenv(fake_msprof.KERNELS, "Cast,paged_decode_attention_kernel_mix_aic")
    readme = (fake_msprof.ROOT / "README.md").read_text()
    line = next(text for text in readme.splitlines() if text.startswith("ascend-infer profile op "))
    words = shlex.split(line, comments=True)[1:]
    assert main([*words, "--device", "sim", "--soc", "A2"]) == 0
    out, err = capfd.readouterr()
    assert "paged_decode_attention_kernel_mix_aic" in out and "12.25" in out
    assert "collecting into msprof/op_" in err
    folder = out.rpartition("profile show ")[2].strip()
    assert main(["profile", "show", folder]) == 0
    conditions = conditions_of(Profile(**EMPTY, manifests=(manifest.read(Path(folder)),)), **TOLD)
    assert not conditions.missing


def test_a_failed_collection(stand_in: Path, capfd: pytest.CaptureFixture[str]) -> None:
    options = ["--json", "--time-limit", "60"]
    command = [sys.executable, "-c", "print('to the screen'); raise KeyError('k')"]
    assert main(["profile", "op", *options, "--", *command]) == 1
    out, err = capfd.readouterr()
    told = json.loads(out)
    assert told["error"]["code"] == told["manifest"]["outcome"] == "AI-PROF-040"
    assert told["profile"] is None and "KeyError" in told["error"]["what"]
    assert "to the screen" in err
    assert main(["profile", "op", "--kernel-name=none", "--", sys.executable, "-c", "1"]) == 1
    assert "AI-PROF-003" in capfd.readouterr().err
