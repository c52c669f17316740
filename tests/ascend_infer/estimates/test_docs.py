"""The commands and examples of docs/estimates.md run as they stand."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from ascend_infer.cli import main
from ascend_infer.estimates import MODELS

PAGE = (Path(__file__).parents[3] / "docs" / "estimates.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = re.findall(r"^ascend-infer (estimate .*)$", PAGE, re.MULTILINE)


def test_there_are_examples() -> None:
    assert len(BLOCKS) >= 3 and len(COMMANDS) >= 5


@pytest.mark.parametrize("block", BLOCKS)
def test_an_example_runs(block: str) -> None:
    exec(compile(block, "docs/estimates.md", "exec"), {})


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_runs(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(MODELS["qwen3-8b"].config))
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(command)) == 0
    assert "modelled" in capsys.readouterr().out
