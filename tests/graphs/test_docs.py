"""The code on the page about graphs runs as it is printed, from top to bottom."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", minversion="2.13")

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "graphs.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page_about_graphs() -> None:
    program = "\n".join(BLOCK.findall(PAGE.read_text(encoding="utf-8")))
    assert "runner.capture()" in program and "HostUpdates" in program
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PATH": "", "HOME": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr, "the page shows a clean setup, without warnings"
