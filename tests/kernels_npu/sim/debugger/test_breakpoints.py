"""What a breakpoint's text means."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernels_npu.errors import SourceLocation, UsageError
from kernels_npu.sim import Breakpoint


def test_conditions() -> None:
    point = Breakpoint.parse("a/kernel.py:42,block=3,core=AIV0")
    assert point == Breakpoint(file="a/kernel.py", line=42, block=3, core="aiv0")
    assert point.holds(3, "aiv0")
    assert not point.holds(2, "aiv0") and not point.holds(3, "aic")
    assert Breakpoint.parse(str(point)) == point
    everywhere = Breakpoint.parse("kernel.py:1")
    assert everywhere.holds(0, "aic") and everywhere.holds(9, "aiv1")


@pytest.mark.parametrize(
    "text",
    ["kernel.py", "kernel.py:x", ":3", "k.py:3,block=", "k.py:3,core=aiv2", "k.py:3,thread=1"],
)
def test_what_is_no_breakpoint(text: str) -> None:
    with pytest.raises(UsageError, match="AI-CLI-001") as caught:
        Breakpoint.parse(text)
    assert text in str(caught.value)


def test_files_match_by_the_parts_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "kernels" / "add.py"
    file.parent.mkdir()
    file.write_text("")
    for text in ("add.py", "kernels/add.py", str(file)):
        assert Breakpoint.parse(f"{text}:7").matches(SourceLocation(str(file), 7))
    assert not Breakpoint.parse("add.py:8").matches(SourceLocation(str(file), 7))
    assert not Breakpoint.parse("dd.py:7").matches(SourceLocation(str(file), 7))
    monkeypatch.chdir(file.parent)
    assert Breakpoint.parse(f"{file}:7").matches(SourceLocation("add.py", 7))
