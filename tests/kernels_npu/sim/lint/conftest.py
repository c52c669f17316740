"""`lint`: the report of a file with the given text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernels_npu.sim.lint import FileReport, lint_file


@pytest.fixture
def lint(tmp_path: Path) -> Callable[..., FileReport]:
    def run(text: str, **options: Any) -> FileReport:
        file = tmp_path / "kernels.py"
        file.write_text(text, encoding="utf-8")
        return lint_file(file, **options)

    return run
