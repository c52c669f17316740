"""Which tilelang kernel files get, and the reason when they get none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kernels_npu import dialect
from kernels_npu.dialect import cache
from kernels_npu.dialect.installation import inspect_directory
from kernels_npu.errors import EnvironmentProblem
from tests.kernels_npu.dialect.installations import install


def test_no_installation_means_the_simulator():
    assert dialect.choose(inspect_directory(None), "auto", simulated=False) == "simulator"


def test_the_adapter_is_used_unless_the_device_is_simulated(tmp_path: Path):
    found = inspect_directory(install(tmp_path, "adapter"))
    assert dialect.choose(found, "auto", simulated=False) == "adapter"
    assert dialect.choose(found, "auto", simulated=True) == "simulator"
    assert dialect.choose(found, "adapter", simulated=True) == "adapter"
    assert dialect.choose(found, "sim", simulated=False) == "simulator"


@pytest.mark.parametrize(
    ("kinds", "code"),
    [
        (("mainline-ascend",), "AI-ENV-010"),
        (("npuir",), "AI-ENV-010"),
        (("mainline",), "AI-ENV-010"),
        (("adapter", "mainline-ascend"), "AI-ENV-011"),
    ],
)
def test_other_dialects_are_refused_with_a_way_out(
    kinds: tuple[str, ...], code: str, tmp_path: Path
):
    for kind in kinds:
        directory = install(tmp_path, kind)
    found = inspect_directory(directory)
    with pytest.raises(EnvironmentProblem) as caught:
        dialect.choose(found, "auto", simulated=False)
    assert caught.value.code == code
    assert str(directory) in caught.value.what
    assert "ASCEND_INFER_DIALECT=sim" in (caught.value.fix or "")
    assert dialect.choose(found, "sim", simulated=False) == "simulator"


def test_a_part_of_an_installation_is_refused(tmp_path: Path):
    directory = install(tmp_path, "adapter", distribution="tilelang 0.1.4")
    (directory / "language/__init__.py").unlink()
    with pytest.raises(EnvironmentProblem) as caught:
        dialect.choose(inspect_directory(directory), "auto", simulated=False)
    assert caught.value.code == "AI-ENV-014"
    assert "language/__init__.py missing" in caught.value.what
    assert f"pip uninstall tilelang; remove {directory}" in (caught.value.fix or "")


@pytest.mark.parametrize("wish", ["mainline", "adapter"])
def test_a_wish_that_cannot_be_granted(wish: str):
    with pytest.raises(EnvironmentProblem) as caught:
        dialect.choose(inspect_directory(None), wish, simulated=False)
    assert caught.value.code == "AI-ENV-012"


def test_each_dialect_has_a_cache_of_its_own(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", "/srv/somebody")
    environment: dict[str, str] = {}
    used = cache.use_own("adapter", environment)
    assert environment == {"TILELANG_CACHE_DIR": "/srv/somebody/.tilelang/cache-adapter"}
    assert used != cache.own_directory("mainline-ascend")


@pytest.mark.parametrize(("value", "kept"), [("/data/kernels", True), ("", False)])
def test_the_user_s_cache_is_left_alone(value: str, kept: bool):
    environment = {"TILELANG_CACHE_DIR": value}
    cache.use_own("adapter", environment)
    assert (environment["TILELANG_CACHE_DIR"] == value) is kept


def test_kernel_files_get_both_names():
    from kernels_npu.dialect import T, make_zn_layout, tilelang

    assert callable(tilelang.jit)
    assert callable(T.prim_func)
    assert callable(make_zn_layout)
    assert dialect.name == "simulator"
    assert "cache-" not in os.environ.get("TILELANG_CACHE_DIR", "")
    with pytest.raises(AttributeError):
        _ = dialect.other
