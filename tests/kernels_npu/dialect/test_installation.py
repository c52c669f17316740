"""Which tilelang is installed: decided from files, without importing anything."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernels_npu import dialect
from kernels_npu.dialect import installation
from kernels_npu.dialect.installation import (
    DESCRIPTIONS,
    Installation,
    inspect_directory,
    installed,
)
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
    """Its dialect shows over another one, and by itself, although nobody says who installed it."""
    directory = install(tmp_path, "adapter", distribution="kernels 2.0")
    found = inspect_directory(directory)
    assert (found.kind, found.distributions) == ("adapter", ())
    install(tmp_path, "mainline-ascend", distribution="tilelang 0.1.15")
    assert inspect_directory(directory).kind == "mixed"


def test_nothing_is_read_of_other_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """There may be thousands, and a file of each takes longer than everything else."""
    directory = install(tmp_path, "npuir", distribution="tilelang 0.1.4")
    for number in range(50):
        other = tmp_path / f"other_{number}-1.0.dist-info"
        other.mkdir()
        (other / "top_level.txt").write_text("tilelang\n")
    read: list[Path] = []
    text_of = installation._text
    monkeypatch.setattr(installation, "_text", lambda path: read.append(path) or text_of(path))
    assert inspect_directory(directory).kind == "npuir"
    assert read == [tmp_path / "tilelang-0.1.4.dist-info/RECORD"]


def test_a_neighbour_that_is_about_tilelang_but_not_in_its_folder(tmp_path: Path):
    directory = install(tmp_path, "mainline", distribution="tilelang 0.1.14")
    other = tmp_path / "tilelang_devkit-0.2.0.dist-info"
    other.mkdir()
    (other / "RECORD").write_text("tilelang_devkit/__init__.py,,\n")
    found = inspect_directory(directory)
    assert (found.kind, found.distributions) == ("mainline", ("tilelang 0.1.14",))


@pytest.mark.parametrize("left", ["__init__.py", "language/ascend_tile.py"])
def test_a_part_of_an_installation(left: str, tmp_path: Path):
    file = tmp_path / "tilelang" / left
    file.parent.mkdir(parents=True)
    file.touch()
    found = inspect_directory(tmp_path / "tilelang")
    assert found.kind == "incomplete" and "language/__init__.py missing" in found.reason


def test_a_part_of_which_only_the_metadata_is_whole(tmp_path: Path):
    shutil.rmtree(install(tmp_path, "mainline", distribution="tilelang 0.1.14"))
    (tmp_path / "tilelang").mkdir()
    assert inspect_directory(tmp_path / "tilelang").kind == "incomplete"


def test_a_folder_of_that_name_is_no_installation(tmp_path: Path):
    """A clone beside the script, which Python takes for a package."""
    directory = install(tmp_path / "tilelang", "adapter")
    (tmp_path / "tilelang/README.md").touch()
    assert inspect_directory(directory).kind == "adapter"
    assert inspect_directory(tmp_path / "tilelang") == Installation(directory=None, kind="none")
    program = "from kernels_npu import dialect; print(dialect.name)"
    assert _ask(program, tmp_path) == "simulator"


def test_a_script_of_that_name_hides_the_package(tmp_path: Path):
    (tmp_path / "script").mkdir()
    script = tmp_path / "script/tilelang.py"
    script.touch()
    install(tmp_path / "site", "adapter")
    program = (
        "from kernels_npu import dialect\ntry: dialect.T\nexcept Exception as error: print(error)"
    )
    said = _ask(program, script.parent, tmp_path / "site")
    assert said.startswith("AI-ENV-014") and f"rename {script}" in said
    assert "a single file" in said


def test_an_editable_installation_with_its_libraries_elsewhere(tmp_path: Path):
    """The package's folder is where its __init__.py is, not the first that is searched."""
    directory = install(tmp_path / "src", "mainline-ascend")
    libraries = tmp_path / "site/tilelang"
    libraries.mkdir(parents=True)
    program = (
        "import sys; from importlib.util import spec_from_file_location as spec\n"
        "from kernels_npu import dialect\n"
        "class Redirecting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'tilelang':\n"
        f"            return spec(name, {str(directory / '__init__.py')!r},\n"
        f"                submodule_search_locations=[{str(libraries)!r}, {str(directory)!r}])\n"
        "sys.meta_path.insert(0, Redirecting())\n"
        "print(dialect.installed().kind)"
    )
    assert _ask(program) == "mainline-ascend"


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
