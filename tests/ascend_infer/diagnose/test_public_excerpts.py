"""The first cause in logs of the forms that public sources show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ascend_infer.diagnose import diagnose_logs

TEXT = (Path(__file__).parent / "public_excerpts.txt").read_text(encoding="utf-8")
BLOCKS = re.split(r"^== ", TEXT, flags=re.MULTILINE)[1:]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.partition("--")[0].strip())
def test_the_first_cause(tmp_path: Path, block: str) -> None:
    _, *lines = block.rstrip().splitlines()
    (cause,) = [number for number, line in enumerate(lines, 1) if line.startswith(">>")]
    log = tmp_path / "a.log"
    log.write_text("\n".join(line.removeprefix(">>") for line in lines), encoding="utf-8")
    found = diagnose_logs([str(log)]).cause
    assert found is not None and found.where == f"{log}:{cause}"


def test_there_are_enough() -> None:
    assert len(BLOCKS) >= 30
