"""The programs of the documentation do what the pages say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", minversion="2.13")

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "docs" / "examples"


def sim_run(script: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ascend_infer", "sim", "run", *options, script.name],
        cwd=script.parent,
        env={
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            "PATH": "",
            "HOME": str(script.parent),
        },
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("page", ["README.md", "docs/tilelang-ascend-scripts.md"])
def test_the_missing_wait_is_reported_as_the_pages_show(page: str) -> None:
    done = sim_run(EXAMPLES / "missing_wait.py")
    assert done.returncode == 1
    shown = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    report = done.stdout[done.stdout.index("ERROR AI-RACE-001") :].splitlines()[:5]
    assert report[-1].startswith("  fix: ")
    assert " ".join(" ".join(report).split()) in shown


def test_without_checks_the_order_decides() -> None:
    script = EXAMPLES / "missing_wait.py"
    lucky = sim_run(script, "--checks", "off")
    assert lucky.returncode == 0, lucky.stderr
    assert "Kernel Output Match!" in lucky.stdout
    late = sim_run(script, "--checks", "off", "--schedule", "late")
    assert late.returncode == 1
    assert "Tensor-likes are not close" in late.stderr


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
def test_with_the_wait_it_passes(schedule: str, tmp_path: Path) -> None:
    store = "                T.copy(a, B[start])\n"
    flags = store.replace("T.copy(a, B[start])", 'T.{}_flag("v", "mte3", 1)')
    text = (EXAMPLES / "missing_wait.py").read_text(encoding="utf-8")
    assert store in text
    repaired = tmp_path / "repaired.py"
    repaired.write_text(text.replace(store, flags.format("set") + flags.format("wait") + store))
    done = sim_run(repaired, "--schedule", schedule)
    assert done.returncode == 0, done.stderr
    assert "Kernel Output Match!" in done.stdout
    assert "no findings" in done.stdout + done.stderr
