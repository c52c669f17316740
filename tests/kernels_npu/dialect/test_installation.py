"""Which tilelang is installed: decided from files, without importing anything."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernels_npu import dialect
from kernels_npu.dialect.installation import DESCRIPTIONS, inspect_directory, installed
from tests.kernels_npu.dialect.installations import FILES, install

ROOT = Path(dialect.__file__).resolve().parents[2]


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("distribution", ["", "tilelang 0.1.4"])
def test_kinds_are_told_apart_by_their_files(kind: str, distribution: str, tmp_path: Path):
    found = inspect_directory(install(tmp_path, kind, distribution=distribution))
    assert found.kind == kind and found.reason == ""
    assert found.distributions == ((distribution,) if distribution else ())
    assert DESCRIPTIONS[kind] in str(found)


def test_early_mainline_is_what_has_no_mark(tmp_path: Path):
    directory = install(tmp_path, "mainline")
    (directory / "tileop/__init__.py").unlink()
    assert inspect_directory(directory).kind == "mainline"


def test_nothing_is_installed():
    assert inspect_directory(None).kind == "none"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("adapter", "mainline-ascend"),
        ("adapter", "mainline"),
        ("mainline-ascend", "npuir"),
        ("npuir", "adapter"),
    ],
)
def test_two_dialects_in_one_folder(first: str, second: str, tmp_path: Path):
    install(tmp_path, first)
    found = inspect_directory(install(tmp_path, second))
    assert found.kind == "mixed" and first in found.reason and second in found.reason


def test_files_that_pip_does_not_know(tmp_path: Path):
    """Early mainline, of which no mark is left, was overwritten by a copy of the adapter."""
    directory = install(tmp_path, "mainline", distribution="tilelang 0.1.5")
    (directory / "tileop/__init__.py").unlink()
    found = inspect_directory(install(tmp_path, "adapter"))
    assert found.kind == "mixed"
    assert "language/ascend_tile.py (adapter) is not a file of tilelang 0.1.5" in found.reason


def test_files_that_are_gone(tmp_path: Path):
    """`pip uninstall` of one distribution took the other's files with it."""
    directory = install(tmp_path, "adapter", distribution="tilelang 0.1.4")
    (directory / "language/ascend_tile.py").unlink()
    found = inspect_directory(directory)
    assert found.kind == "mixed" and "language/ascend_tile.py, which is gone" in found.reason


def test_two_distributions_with_one_folder(tmp_path: Path):
    install(tmp_path, "adapter", distribution="tilelang 0.1.4")
    found = inspect_directory(install(tmp_path, "adapter", distribution="tilelang-ascend 0.1.4"))
    assert found.kind == "mixed"
    assert found.distributions == ("tilelang 0.1.4", "tilelang-ascend 0.1.4")


def test_a_distribution_of_another_name(tmp_path: Path):
    """Named otherwise, but its top_level.txt says whose folder it is."""
    directory = install(tmp_path, "adapter", distribution="kernels 2.0")
    (tmp_path / "kernels-2.0.dist-info/top_level.txt").write_text("tilelang\nother\n")
    assert inspect_directory(directory).distributions == ("kernels 2.0",)


def test_a_neighbour_that_is_about_tilelang_but_not_in_its_folder(tmp_path: Path):
    directory = install(tmp_path, "mainline", distribution="tilelang 0.1.14")
    other = tmp_path / "tilelang_devkit-0.2.0.dist-info"
    other.mkdir()
    (other / "RECORD").write_text("tilelang_devkit/__init__.py,,\n")
    found = inspect_directory(directory)
    assert (found.kind, found.distributions) == ("mainline", ("tilelang 0.1.14",))


@pytest.mark.parametrize("left", ["", "__init__.py"])
def test_a_part_of_an_installation(left: str, tmp_path: Path):
    directory = tmp_path / "tilelang"
    directory.mkdir()
    if left:
        (directory / left).touch()
    found = inspect_directory(directory)
    assert found.kind == "incomplete" and "language/__init__.py missing" in found.reason


@pytest.mark.parametrize("content", [b"\xff\xfe\x00junk", b"", None])
def test_metadata_that_cannot_be_read(content: bytes | None, tmp_path: Path):
    directory = install(tmp_path, "adapter", distribution="tilelang 0.1.4", record=False)
    record = tmp_path / "tilelang-0.1.4.dist-info/RECORD"
    record.mkdir() if content is None else record.write_bytes(content)
    assert inspect_directory(directory).kind in ("adapter", "mixed")


def _ask(program: str, *path: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": os.pathsep.join(map(str, (*path, ROOT))), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_the_installed_tilelang_is_found_without_importing_it(tmp_path: Path):
    directory = install(tmp_path, "mainline-ascend")
    program = (
        "import sys; from kernels_npu import dialect\n"
        "found = dialect.installed()\n"
        "heavy = [m for m in ('tilelang', 'torch', 'numpy') if m in sys.modules]\n"
        "print(found.directory, found.kind, heavy)"
    )
    assert _ask(program, tmp_path) == f"{directory} mainline-ascend []"


def test_finders_that_fail_are_passed_over(tmp_path: Path):
    install(tmp_path, "npuir")
    program = (
        "import sys; from kernels_npu import dialect\n"
        "class Broken:\n    def find_spec(self, *args): raise ValueError('no')\n"
        "sys.meta_path[:0] = [Broken(), object()]\n"
        "print(dialect.installed().kind)"
    )
    assert _ask(program, tmp_path) == "npuir"


@pytest.mark.bench
def test_deciding_is_quick(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    install(tmp_path, "mainline-ascend", distribution="tilelang 0.1.15")
    start = time.perf_counter()
    installed()
    inspect_directory(tmp_path / "tilelang")
    with capsys.disabled():
        print(f"\ndialect decided in {(time.perf_counter() - start) * 1e3:.2f} ms")
