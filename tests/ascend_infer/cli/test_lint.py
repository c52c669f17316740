"""`ascend-infer lint`: exit codes, the JSON object, the text for people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ascend_infer.cli import main

KERNEL = """
import tilelang
import tilelang.language as T

@tilelang.jit(out_idx=[1])
def double(rows):
    @T.prim_func
    def main(A: T.Tensor((rows, 96), "float32"), B: T.Tensor((rows, 96), "float32")):
        with T.Kernel(1, is_npu=True) as (cid, vid):
            a = T.alloc_ub((rows, 96), "float32")
            with T.Scope("V"):
                T.copy(A, a)
                T.barrier_all()
                T.tile.mul(a, a, 2.0)
                T.barrier_all()
                T.copy(a, B)
    return main
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "small.py").write_text(KERNEL + "double(10)\n")
    (tmp_path / "large.py").write_text(KERNEL + "double(600)\n")
    (tmp_path / "edge.py").write_text(KERNEL + "double(512)\n")
    (tmp_path / "none.py").write_text("x = 1\n")
    return tmp_path


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    status = main(["lint", "--json", *arguments])
    return status, json.loads(capsys.readouterr().out)


def test_a_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, result = as_json(capsys, str(folder))
    assert (status, result["passed"]) == (1, False)
    kernels = {Path(f["file"]).stem: f["kernels"] for f in result["files"]}
    assert [len(kernels[name]) for name in ("small", "large", "edge", "none")] == [1, 1, 1, 0]
    (small,) = kernels["small"]
    assert small["made_by"] == "double(10)"
    assert (Path(small["file"]).name, small["line"]) == ("small.py", 8)
    assert small["parameters"] == ["A: float32[10, 96]", "B: float32[10, 96]"]
    bytes_in_use = dict.fromkeys(("configured", "with_planning", "without_planning"), 3840)
    assert small["memory"] == {"UB": {**bytes_in_use, "capacity": 196352}}
    assert (small["findings"], small["evidence"]) == ([], "static-check")
    (large,) = kernels["large"]
    assert large["memory"]["UB"]["with_planning"] is None
    assert [f["code"] for f in large["findings"]] == ["AI-MEM-001"]


@pytest.mark.parametrize(
    ("name", "fail_on", "status"),
    [
        ("small", "hint", 0),
        ("edge", "error", 0),
        ("edge", "warning", 1),
        ("large", "error", 1),
        ("large", "never", 0),
    ],
)
def test_fail_on(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, fail_on: str, status: int
) -> None:
    assert as_json(capsys, str(folder / f"{name}.py"), "--fail-on", fail_on)[0] == status


def test_text(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", str(folder / "large.py"), "--call", "double(20)"]) == 1
    text = capsys.readouterr().out
    assert "large.py:8  main  [ascendc]  double(600)" in text
    rows = [line.split() for line in text.splitlines() if line.strip().startswith("UB")]
    assert rows == [
        ["UB", "230,400", "too", "many", "230,400", "196,352"],
        ["UB", "7,680", "7,680", "7,680", "196,352"],
    ]
    assert "kernels: 2, files: 1, findings: 1" in text


def test_another_chip_and_target(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--soc", "Ascend950PR_9599", "--target", "pto")
    status, result = as_json(capsys, str(folder / "large.py"), *options)
    (kernel,) = result["files"][0]["kernels"]
    assert (status, kernel["target"], kernel["findings"]) == (0, "pto", [])


@pytest.mark.parametrize("arguments", [["/nowhere.py"], ["{}", "--call", "nothing(1)"]])
def test_wrong_use(folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    status, result = as_json(capsys, *(a.format(folder / "small.py") for a in arguments))
    assert (status, list(result)) == (2, ["error"])


def test_a_file_of_another_dialect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = KERNEL.replace("(1, is_npu=True) as (cid, vid)", "(1) as cid")
    text = text.replace("tilelang.language", "tilelang.ascend.language")
    text = text.replace("alloc_ub", "alloc_l1").replace("T.tile.mul(a, a, 2.0)", "pass")
    text = text.replace('T.Scope("V")', "T.Vector()") + "double(1 / 0)\n"
    (tmp_path / "mainline.py").write_text(text)
    status, result = as_json(capsys, str(tmp_path / "mainline.py"))
    (file,) = result["files"]
    assert status == 1 and not file["kernels"]
    assert {finding["code"] for finding in file["findings"]} == {"AI-SRC-022"}
    lines = {finding["line"]: finding["fix"] for finding in file["findings"]}
    at = {line: number for number, line in enumerate(text.splitlines(), 1)}
    number = next(n for line, n in at.items() if "alloc_l1" in line)
    assert lines[number] == "write T.alloc_L1"
