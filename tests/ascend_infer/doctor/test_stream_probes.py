"""What the probes of streams answer where the NPU is the simulated one."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.ascend_infer.doctor.answers import HOST, diagnosis, found

PROGRAM = """
import json
from kernels_npu.sim import device
device.enable()
from ascend_infer.doctor.probes import npu
print(json.dumps([npu.stream(), npu.tvm_ffi()]))
"""


@pytest.fixture(scope="module")
def answers() -> list[dict[str, Any]]:
    pytest.importorskip("tvm_ffi")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def test_a_launch_gets_a_handle(answers):
    assert answers[0]["handle"] > 0
    assert answers[0]["accessor"] == "Stream.npu_stream"
    finding = found(diagnosis(HOST, stream=answers[0]))["stream of a launch"]
    assert finding.verdict == "ok" and "read by Stream.npu_stream" in finding.evidence


def test_tvm_ffi_kernels_follow_after_a_patch(answers):
    assert answers[1] == {"installed": True, "follows": True, "patched": True, "problems": []}
    finding = found(diagnosis(HOST, tvm_ffi=answers[1]))["streams of TVM-FFI kernels"]
    assert finding.verdict == "ok"
    assert "kernels_npu.stream.ensure" in finding.advice


def test_without_tvm_ffi_nothing_is_asked():
    finding = found(diagnosis(HOST, tvm_ffi={"installed": False}))["streams of TVM-FFI kernels"]
    assert finding.verdict == "absent"
