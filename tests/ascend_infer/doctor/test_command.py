"""`ascend-infer doctor` as a process, in environments that are broken on purpose."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.ascend_infer.processes import command
from tests.kernels_npu.dialect.installations import install


def doctor(
    *arguments: str, before: str = "", **variables: str
) -> tuple[subprocess.CompletedProcess[str], Any]:
    finished = command("doctor", "--json", *arguments, before=before, variables=variables)
    assert "Traceback" not in finished.stderr, finished.stderr
    result = json.loads(finished.stdout)
    result["found"] = {f["name"]: f for f in result["findings"]}
    return finished, result


def module(folder: Path, name: str, text: str) -> str:
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text(text)
    return str(folder)


def test_this_machine():
    finished, result = doctor()
    assert finished.returncode == (0 if result["passed"] else 1)
    assert "cpu" in result["devices"]
    for finding in result["findings"]:
        assert finding["verdict"] in ("ok", "absent", "warning", "broken")
        assert finding["evidence"]
        assert finding["advice"] or finding["verdict"] in ("ok", "absent"), finding


@pytest.mark.parametrize(
    ("kinds", "exit_code", "verdict", "words"),
    [
        (("mainline-ascend",), 0, "warning", "AI-ENV-010: tilelang 0.1.15 in "),
        (("adapter", "mainline-ascend"), 1, "broken", "AI-ENV-011"),
        (("adapter",), 0, "ok", "kernels use the adapter's"),
    ],
)
def test_installations_of_tilelang(
    kinds: tuple[str, ...], exit_code: int, verdict: str, words: str, tmp_path: Path
):
    for kind in kinds[:-1]:
        install(tmp_path, kind)
    install(tmp_path, kinds[-1], distribution="tilelang 0.1.15")
    finished, result = doctor(before=str(tmp_path))
    finding = result["found"]["tilelang dialect"]
    assert (finding["verdict"], finished.returncode) == (verdict, exit_code)
    assert words in finding["evidence"]


def test_a_torch_npu_without_cann(tmp_path: Path):
    text = (
        "try:\n    raise ImportError('libhccl.so: cannot open shared object file')\n"
        "except ImportError as error:\n    raise RuntimeError('no backend') from error\n"
    )
    before = module(tmp_path, "torch_npu", text)
    metadata = tmp_path / "torch_npu-2.13.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: torch_npu\nVersion: 2.13.0\n")
    (metadata / "entry_points.txt").write_text(
        "[torch.backends]\ntorch_npu = torch_npu:_autoload\n"
    )
    finished, result = doctor(before=before)
    finding = result["found"]["torch_npu"]
    assert finished.returncode == 1 and finding["verdict"] == "broken"
    assert finding["evidence"].startswith("ImportError: libhccl.so")
    assert result["devices"] == ["sim"]
    assert result["found"]["versions: torch and torch_npu"]["verdict"] in ("ok", "broken")
    finished, result = doctor(before=before, TORCH_DEVICE_BACKEND_AUTOLOAD="0", HOME="")
    assert finished.returncode == 0 and result["devices"] == ["sim", "cpu"]


def test_everything_hangs_or_is_broken_at_once(tmp_path: Path):
    before = module(tmp_path / "packages", "torch_npu", "import time\ntime.sleep(60)\n")
    module(tmp_path / "packages", "gguf", "import os\nos.abort()")
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "npu-smi").write_text("#!/bin/sh\nsleep 60 & sleep 60\n")
    (tools / "npu-smi").chmod(0o755)
    finished, result = doctor(
        "--timeout",
        "5",
        before=before,
        HOME="/proc/nowhere",
        PATH=f"{tools}:/usr/bin:/bin",
        ASCEND_HOME_PATH="/proc/1/nowhere",
        TASK_QUEUE_ENABLE="2",
    )
    found = result["found"]
    assert finished.returncode == 1
    assert "no answer within 5 s" in found["torch_npu"]["evidence"]
    assert "no answer within 4 s" in found["npu-smi"]["evidence"]
    assert "signal 6" in found["imports"]["evidence"]
    assert found["CANN"]["verdict"] == "warning"
    assert found["writable folders: compiled kernels"]["verdict"] == "warning"
    assert "captures fail" in found["environment variables: TASK_QUEUE_ENABLE"]["evidence"]


def test_without_pip_s_metadata(tmp_path: Path):
    """A package is there although nothing is recorded of it."""
    text = "def version(name): raise metadata.PackageNotFoundError(name)\n"
    (tmp_path / "sitecustomize.py").write_text(
        f"import importlib.metadata as metadata\n{text}metadata.version = version\n"
    )
    _, result = doctor(before=str(tmp_path))
    assert result["devices"] == ["sim", "cpu"]
    assert "numpy unknown" in result["found"]["required packages"]["evidence"]
    assert "unknown, for GGUF" in result["found"]["gguf"]["evidence"]


@pytest.mark.parametrize("arguments", [["--timeout", "0"], ["--timeout", "x"], ["more"]])
def test_wrong_use(arguments: list[str]):
    assert command("doctor", *arguments).returncode == 2
