"""Files are whole, or what they were."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kernels_npu.errors import UsageError
from profiling.whole_files import write_whole


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for data in (b"old", b"new"):
        write_whole(path, data, "file")
        assert path.read_bytes() == data
    assert os.listdir(tmp_path) == ["file"]


def test_what_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "folder", tmp_path / "none" / "file", tmp_path / ("x" * 300)):
        with pytest.raises(UsageError, match="AI-CLI-004"):
            write_whole(path, b"data", "file")
    assert os.listdir(tmp_path) == ["folder"]
    with pytest.raises(UsageError, match=r"cannot write the page .*null byte"):
        write_whole(Path("a\0b"), b"data", "page")


def test_an_interrupt_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_whole(path, b"old", "file")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_whole(path, b"new", "file")
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["file"]
