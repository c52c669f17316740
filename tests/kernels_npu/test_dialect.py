"""Which tilelang kernel files get: decided from files, without importing anything."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernels_npu import dialect
from kernels_npu.errors import EnvironmentProblem

MARKERS = {
    "adapter": ["language/ascend_tile.py"],
    "mainline-ascend": ["ascend/language/__init__.py"],
    "npuir": ["jit/jit_npu.py"],
    "mainline": [],
    "mixed": ["language/ascend_tile.py", "ascend/language/__init__.py"],
}


def installation(root: Path, kind: str) -> Path:
    """A folder that looks like this kind of tilelang; importing it fails."""
    directory = root / "tilelang"
    directory.mkdir()
    (directory / "__init__.py").write_text("raise AssertionError('tilelang was imported')\n")
    for marker in MARKERS[kind]:
        (directory / marker).parent.mkdir(parents=True, exist_ok=True)
        (directory / marker).touch()
    return directory


@pytest.mark.parametrize("kind", MARKERS)
def test_kinds_are_told_apart_by_their_files(kind, tmp_path):
    assert dialect.kind_of_installation(installation(tmp_path, kind)) == kind


def test_no_installation_means_the_simulator():
    assert dialect.kind_of_installation(None) == "none"
    assert dialect.choose(None, "auto", simulated=False) == "simulator"


def test_the_adapter_is_used_unless_the_device_is_simulated(tmp_path):
    directory = installation(tmp_path, "adapter")
    assert dialect.choose(directory, "auto", simulated=False) == "adapter"
    assert dialect.choose(directory, "auto", simulated=True) == "simulator"
    assert dialect.choose(directory, "adapter", simulated=True) == "adapter"
    assert dialect.choose(directory, "sim", simulated=False) == "simulator"


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("mainline-ascend", "AI-ENV-010"),
        ("npuir", "AI-ENV-010"),
        ("mainline", "AI-ENV-010"),
        ("mixed", "AI-ENV-011"),
    ],
)
def test_other_dialects_are_refused_with_a_way_out(kind, code, tmp_path):
    directory = installation(tmp_path, kind)
    with pytest.raises(EnvironmentProblem) as caught:
        dialect.choose(directory, "auto", simulated=False)
    assert caught.value.code == code
    assert str(directory) in caught.value.what
    assert "ASCEND_INFER_DIALECT=sim" in (caught.value.fix or "")
    assert dialect.choose(directory, "sim", simulated=False) == "simulator"


@pytest.mark.parametrize("wish", ["mainline", "adapter"])
def test_a_wish_that_cannot_be_granted(wish):
    with pytest.raises(EnvironmentProblem) as caught:
        dialect.choose(None, wish, simulated=False)
    assert caught.value.code == "AI-ENV-012"


def test_the_installed_tilelang_is_found_without_importing_it(tmp_path):
    directory = installation(tmp_path, "mixed")
    code = (
        "import sys; from kernels_npu import dialect\n"
        "directory = dialect.tilelang_directory()\n"
        "print(directory, dialect.kind_of_installation(directory), 'tilelang' in sys.modules)"
    )
    root = Path(dialect.__file__).resolve().parents[1]
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": f"{tmp_path}:{root}", "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [str(directory), "mixed", "False"]


@pytest.mark.bench
def test_deciding_is_quick(capsys):
    start = time.perf_counter()
    dialect.kind_of_installation(dialect.tilelang_directory())
    with capsys.disabled():
        print(f"\ndialect decided in {(time.perf_counter() - start) * 1e3:.2f} ms")


def test_kernel_files_get_both_names():
    from kernels_npu.dialect import T, make_zn_layout, tilelang

    assert callable(tilelang.jit)
    assert callable(T.prim_func)
    assert callable(make_zn_layout)
    assert dialect.name == "simulator"
    with pytest.raises(AttributeError):
        _ = dialect.other
