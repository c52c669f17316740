"""scripts/gpu/stream_proof.py: on a CUDA device, and without one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "gpu" / "stream_proof.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.gpu
def test_cuda_streams_are_followed_without_a_patch():
    pytest.importorskip("tvm_ffi")
    finished = run()
    assert finished.returncode == 0, finished.stdout + finished.stderr
    result = json.loads(finished.stdout)
    assert result["passed"]
    assert not result["report"]["patched"]


def test_a_device_that_is_not_there_is_wrong_use():
    finished = run("--device", "cuda:99")
    assert finished.returncode == 2
    assert "AI-GRAPH-002" in finished.stderr
