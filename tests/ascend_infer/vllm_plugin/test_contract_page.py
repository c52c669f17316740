"""Each line of the contract names a test that is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
NAMED = re.findall(
    r"`(tests/[\w/]+\.py)(?:::(\w+))?`", (ROOT / "docs/vllm-contract.md").read_text()
)


def test_there_are_lines_in_every_part() -> None:
    parts = (ROOT / "docs/vllm-contract.md").read_text().split("\n## ")[1:]
    assert len(parts) == 4
    assert all(part.count("`tests/") >= 3 for part in parts)


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_named_test_exists(file: str, name: str) -> None:
    text = (ROOT / file).read_text()
    assert not name or f"def {name}(" in text
