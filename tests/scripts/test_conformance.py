"""The conformance run: no file passes wrongly; expectations; a clone of a few files."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from conformance_suite import __main__ as conformance  # noqa: E402
from conformance_suite import catalogue, page, verdicts  # noqa: E402
from conformance_suite.runner import Execution  # noqa: E402
from conformance_suite.waiting import Waiting, free_memory  # noqa: E402

FILE = "examples/some/kernel.py"
LAUNCHED = {"kernels": {"main": {"launches": 1}}, "findings": [], "error": None}
COMPARED = {"comparisons": 2, "elements": 64, "disagreements": 0, "tests": {}, "notes": []}
RACE = {"code": "AI-RACE-002", "severity": "error", "where": "k.py:3"}
HINT = {"code": "AI-SYNC-090", "severity": "hint", "where": "k.py:4"}


def execution(exit_code: int | None = 0, output: str = "", **changes: object) -> Execution:
    evidence = {**COMPARED, **changes.pop("evidence", {})}  # type: ignore[dict-item]
    return Execution(
        exit_code=exit_code,
        seconds=1.0,
        output=output,
        report={**LAUNCHED, **changes},
        evidence=evidence,
    )


@pytest.mark.parametrize(
    "run, verdict, reason",
    [
        (execution(), "pass", ""),
        (execution(findings=[HINT]), "pass", ""),
        (execution(findings=[{**RACE, "severity": "warning"}]), "pass with findings", "AI-RACE"),
        (execution(findings=[RACE]), "right, but errors", "AI-RACE-002"),
        (execution(1, findings=[RACE], output="AssertionError: off\n"), "fail", "AssertionError"),
        (execution(evidence={"comparisons": 0}), "fail", "nothing was compared"),
        (execution(kernels={}), "fail", "no kernel was launched"),
        (execution(evidence={"disagreements": 1}), "fail", "1 comparisons disagreed"),
        (execution(1, findings=[RACE], error={"code": "AI-RACE-002", "what": "no wait"}), "fail",
         "AI-RACE-002: no wait"),
        (execution(1, output="Traceback\nValueError: wrong\n"), "fail", "ValueError: wrong"),
        (execution(None), "timeout", "time limit"),
    ],
)  # fmt: skip
def test_a_pass_needs_a_launch_and_a_comparison_that_agreed(run, verdict, reason):
    result = verdicts.judge(FILE, [execution(), run])
    assert result.verdict == verdict and reason in result.reason


@pytest.mark.parametrize(
    "tests, verdict",
    [({"passed": 3}, "pass"), ({}, "fail"), ({"skipped": 3}, "fail"),
     ({"passed": 3, "failed": 1}, "fail")],
)  # fmt: skip
def test_a_test_file_passes_by_its_tests(tests, verdict):
    code = 1 if "failed" in tests else 0
    result = verdicts.judge(
        "testing/python/test_x.py", [execution(code, evidence={"tests": tests})]
    )
    assert result.verdict == verdict


def test_what_the_system_killed_runs_again_when_nothing_else_does(tmp_path, monkeypatch):
    calls = []

    def execute_all(clone, file, *, timeout, logs):
        calls.append(file)
        return [execution(-9 if file == "large.py" and calls.count(file) == 1 else 0)]

    monkeypatch.setattr(conformance, "execute_all", execute_all)
    found = list(conformance._verdicts(tmp_path, ["large.py", "small.py"], 2, 1.0, tmp_path))
    assert [v.file for v in found][-1] == "large.py" and calls.count("large.py") == 2
    assert {v.verdict for v in found} == {"pass"}


def test_expectations_name_verdict_and_codes(tmp_path: Path):
    table = tmp_path / "expected.tsv"
    table.write_text(
        "file\tverdict\tcodes\twhy\n" + f"{FILE}\tfail\tAI-RACE-002\ta missing credit\n"
    )
    expected = verdicts.read_expectations(table)
    failing = execution(1, findings=[RACE], error={"code": "AI-RACE-002", "what": "no wait"})
    assert verdicts.surprise(verdicts.judge(FILE, [failing]), expected) == ""
    assert "expected: fail" in verdicts.surprise(verdicts.judge(FILE, [execution()]), expected)
    assert "expected: pass" in verdicts.surprise(verdicts.judge(FILE, [failing]), {})
    other = execution(1, error={"code": "AI-MEM-001", "what": "too large"})
    assert "AI-RACE-002" in verdicts.surprise(verdicts.judge(FILE, [other]), expected)


def test_the_repository_s_expectations_are_well_formed():
    rows = verdicts.read_expectations(ROOT / "scripts" / "conformance_suite" / "expected.tsv")
    known = {verdicts.FINDINGS, verdicts.ERRORS, verdicts.FAIL, verdicts.TIMEOUT}
    assert all(row.verdict in known and row.why for row in rows.values())


def test_every_expected_finding_has_its_argument_in_the_manual():
    page = (ROOT / "docs" / "upstream-findings.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `([^`]+)` \| [^|]+ \| `(AI-[A-Z]+-\d+)` ", page, re.MULTILINE))
    rows = verdicts.read_expectations(ROOT / "scripts" / "conformance_suite" / "expected.tsv")
    found = {(file, code) for file, row in rows.items() for code in row.codes}
    assert found <= listed, "add them, with the argument, to docs/upstream-findings.md"


ADD = """
import sys, torch, tilelang, tilelang.language as T

@tilelang.jit(out_idx=[-1])
def double(N):
    @T.prim_func
    def main(A: T.Tensor((1, N), "float32"), B: T.Tensor((1, N), "float32")):
        with T.Kernel(1, is_npu=True) as (cid, vid):
            a = T.alloc_ub((1, N), "float32")
            with T.Scope("V"):
                if vid == 0:
                    T.copy(A[0, 0], a)
                    T.barrier_all()
                    T.tile.add(a, a, a)
                    T.barrier_all()
                    T.copy(a, B[0, 0])
    return main

x = torch.randn(1, 40).npu()
y = double(40)(x)
"""
CHECK = "torch.testing.assert_close(y, {factor} * x)\n"
SUITE = {
    "examples/right.py": ADD + CHECK.format(factor=2),
    "examples/wrong.py": ADD + CHECK.format(factor=3),
    "examples/silent.py": ADD + "print('Kernel Output Match!')\n",
    "examples/shmem/cards.py": "import tilelang\n",
    "examples/helper.py": "X = 1\n",
    "testing/python/test_two.py": ADD + "def test_it():\n    " + CHECK.format(factor=2)
    + "def test_not():\n    " + CHECK.format(factor=4),
}  # fmt: skip


@pytest.mark.slow
def test_a_small_clone(tmp_path: Path):
    for name, text in SUITE.items():
        path = tmp_path / "clone" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    out = tmp_path / "out.json"
    finished = subprocess.run(
        [sys.executable, "-m", "conformance_suite", str(tmp_path / "clone"), "--json", str(out),
         "--logs", str(tmp_path / "logs"), "--jobs", "1"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "scripts"), str(ROOT)])},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert finished.returncode == 1, finished.stdout + finished.stderr
    found = {row["file"]: row for row in json.loads(out.read_text())["files"]}
    assert {name: row["verdict"] for name, row in found.items()} == {
        "examples/right.py": "pass",
        "examples/wrong.py": "fail",
        "examples/silent.py": "fail",
        "examples/shmem/cards.py": "not judged",
        "examples/helper.py": "not judged",
        "testing/python/test_two.py": "fail",
    }
    assert "1 comparisons of 40 elements" in found["examples/right.py"]["evidence"]
    assert "nothing was compared" in found["examples/silent.py"]["reason"]
    assert "1 tests failed, 1 passed" in found["testing/python/test_two.py"]["reason"]
    assert not list((tmp_path / "clone").rglob("*.pyc")), "the clone stays as it is"


def test_first_matching_judge():
    assert catalogue.judge_of("testing/python/language/test_x.py").by == "pytest"
    assert catalogue.judge_of("examples/lightning_indexer/a.py").by == "extra"
    assert catalogue.judge_of("examples/gemm/new.py").by == "assertion"


def test_heavy_files_start_first_and_only_where_they_fit() -> None:
    heavy = list(catalogue.HEAVY)
    chosen = ["examples/a.py", heavy[2], "testing/b.py", heavy[0]]
    ordered = [heavy[0], heavy[2], "examples/a.py", "testing/b.py"]
    assert catalogue.in_order(chosen) == ordered

    free = [8.0]
    needs = {"large": 7, "other large": 6, "small": 1}
    files = ["large", "other large", "small", "another", "last"]
    waiting = Waiting(files, needs, lambda: free[0])
    assert waiting.take() == "large"
    assert waiting.take() == "small"  # what the large one will need is not yet taken
    assert waiting.take() == "another"
    free[0] = 1.0
    taken = []
    worker = threading.Thread(target=lambda: taken.append(waiting.take()))
    worker.start()
    waiting.done("small")
    assert not taken  # neither fits
    waiting.done("large")
    worker.join()
    assert taken == ["other large"]
    free[0] = 8.0
    assert waiting.take() == "last"
    assert waiting.take() is None
    alone = Waiting(["huge"], {"huge": 99}, lambda: free[0])
    assert alone.take() == "huge"
    assert free_memory() > 0


def test_the_page_is_current():
    assert page.PAGE.read_text(encoding="utf-8") == page.render(), (
        "run: PYTHONPATH=scripts python -m conformance_suite.page"
    )


def test_outcomes_of_a_test_file_are_written_down_whatever_they_are(tmp_path: Path):
    (tmp_path / "test_kinds.py").write_text(
        "import pytest\n"
        "def test_passes(): pass\n"
        "def test_fails(): assert 0\n"
        "def test_skips(): pytest.skip('no device')\n"
        "@pytest.mark.xfail(reason='known')\n"
        "def test_is_known_to_fail(): assert 0\n"
        "@pytest.mark.xfail(reason='fixed')\n"
        "def test_was_known_to_fail(): pass\n"
    )
    found = tmp_path / "evidence.json"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "scripts")])}
    command = [sys.executable, "-m", "conformance_suite.observe", str(found), "pytest"]
    done = subprocess.run(
        [*command, str(tmp_path / "test_kinds.py")], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 1, done.stdout
    evidence = json.loads(found.read_text())
    assert evidence["tests"] == {"passed": 2, "failed": 1, "skipped": 2}
    reasons = [note.partition(": ")[2] for note in evidence["notes"]]
    assert reasons == ["Skipped: no device", "expected to fail: known"]
