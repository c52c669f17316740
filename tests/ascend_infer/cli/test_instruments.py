"""`sim run --trace`, as a process on an unmodified script."""

from __future__ import annotations

import json
from pathlib import Path

from tests.ascend_infer.processes import command, needs_simulator

SCRIPT = """
import os
import tilelang
import tilelang.language as T
import torch

@tilelang.jit(out_idx=[1])
def double(rows):
    @T.prim_func
    def kernel(x: T.Tensor((rows, 64), "float16"), y: T.Tensor((rows, 64), "float16")):
        with T.Kernel(rows // 8, is_npu=True, threads=1) as cid:
            a = T.alloc_ub([8, 64], "float16")
            T.copy(x[cid * 8, 0], a)
            T.barrier_all()
            T.tile.add(a, a, a)
            T.barrier_all()
            T.copy(a, y[cid * 8, 0])
    return kernel

os.chdir("/")
x = torch.randn(32, 64, dtype=torch.float16).npu()
kernel = double(32)
for _ in range(3):
    y = kernel(x)
torch.testing.assert_close(y.cpu(), (x + x).cpu())
"""


@needs_simulator
def test_trace_says_what_it_holds_and_what_it_left_out(tmp_path: Path):
    script, trace = tmp_path / "script.py", tmp_path / "out.json"
    script.write_text(SCRIPT)
    limits = ("--trace-blocks", "3", "--trace-launches", "2")
    finished = command("sim", "run", "--trace", str(trace), *limits, "--json", str(script))
    assert finished.returncode == 0, finished.stderr
    result = json.loads(finished.stdout)["trace"]
    assert result["file"] == str(trace)
    assert (result["launches"], result["launches_left_out"], result["blocks_left_out"]) == (2, 1, 2)
    content = json.loads(trace.read_text())
    assert len(content["traceEvents"]) == result["events"]
    adds = [e for e in content["traceEvents"] if e["name"] == "add"]
    assert len(adds) == 2 * 3
    assert adds[0]["args"]["source"] == f"{script}:15"


@needs_simulator
def test_a_trace_that_cannot_be_written_is_a_wrong_use(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text("print('ran')")
    finished = command("sim", "run", "--trace", str(tmp_path / "no" / "t.json"), str(script))
    assert finished.returncode == 2 and "AI-CLI-004" in finished.stderr
    assert "ran" not in finished.stdout
