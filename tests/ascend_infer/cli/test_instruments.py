"""`sim run --trace` and `--break`, as a process on an unmodified script."""

from __future__ import annotations

import json
import os
import pty
import sys
from pathlib import Path

import pytest

from tests.ascend_infer.processes import ROOT, command, needs_simulator

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


@needs_simulator
def test_break_without_a_terminal(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    stop = ("--break", "script.py:15,block=2", "--break", "script.py:30")
    refused = command("sim", "run", *stop, str(script))
    assert refused.returncode == 1 and "AI-DBG-001" in refused.stderr
    scripted = ("--break-command", "p ('at', cid)", "--break-command", "buffers")
    finished = command("sim", "run", *stop, *scripted, str(script))
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.count("('at', 2)") == 3
    assert f"> {script}(15)kernel()" in finished.stdout
    assert "a: float16[8, 64] in UB" in finished.stdout
    assert "AI-DBG-002" in finished.stderr and "script.py:30" in finished.stderr


@needs_simulator
def test_break_in_a_terminal(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    child, terminal = pty.fork()
    if child == 0:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        arguments = ["-m", "ascend_infer", "sim", "run", "--break", "script.py:15", str(script)]
        os.execve(sys.executable, [sys.executable, *arguments], environment)
    text = ""
    for answer in ("n", "p cid * 7 + 1", "q"):
        text += _until_prompt(terminal)
        os.write(terminal, f"{answer}\n".encode())
    _, status = os.waitpid(child, 0)
    assert "-> T.tile.add(a, a, a)" in text and "-> T.barrier_all()" in text and "\n1\r" in text
    assert os.waitstatus_to_exitcode(status) == 130


def _until_prompt(terminal: int) -> str:
    text = ""
    while "(Pdb) " not in text:
        try:
            text += os.read(terminal, 4096).decode()
        except OSError:
            pytest.fail(f"no prompt after: {text}")
    return text


@needs_simulator
def test_a_profile_in_the_layout_of_msprof(tmp_path: Path):
    script, folder = tmp_path / "script.py", tmp_path / "OPPROF_sim"
    script.write_text(SCRIPT)
    limits = ("--opprof-launches", "2")
    finished = command("sim", "run", "--opprof", str(folder), *limits, "--json", str(script))
    assert finished.returncode == 0, finished.stderr
    result = json.loads(finished.stdout)["profile"]
    assert result["folder"] == str(folder)
    assert (result["launches"], result["launches_left_out"]) == ({"kernel": 2}, 1)
    shown = command("profile", "show", str(folder), "--json")
    assert shown.returncode == 0, shown.stderr
    told = json.loads(shown.stdout)
    assert told["notes"] == []
    assert [kernel["folder"] for kernel in told["kernels"]] == ["kernel/0", "kernel/1"]
    # every element is read once and written once
    assert told["kernels"][0]["traffic"]["paths"] == {"gm_to_ub": 4096, "ub_to_gm": 4096}
    assert told["kernels"][0]["roofline"]["unit"] == "cycles"
    (total,) = told["kernel_totals"]
    assert (total["launches"], total["gm_bytes"]) == (2, 2 * 8192)
    assert told["sentences"][0]["text"].startswith("kernel moves most bytes")
    again = command("sim", "run", "--opprof", str(folder), str(script))
    assert again.returncode == 2 and "AI-CLI-004" in again.stderr


@needs_simulator
def test_a_profile_of_nothing_fails_and_leaves_nothing(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text("print('ran')")
    finished = command("sim", "run", "--opprof", str(tmp_path / "p"), "--json", str(script))
    assert finished.returncode == 1 and "AI-PROF-060" in finished.stderr
    assert json.loads(finished.stdout)["profile"]["folder"] is None
    assert [p.name for p in tmp_path.iterdir()] == ["script.py"]
    both = ("--opprof", str(tmp_path / "p"), "--trace", str(tmp_path / "t.json"))
    refused = command("sim", "run", *both, str(script))
    assert refused.returncode == 2 and "AI-CLI-003" in refused.stderr
