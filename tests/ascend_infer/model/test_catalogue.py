"""Names of models."""

from __future__ import annotations

from pathlib import Path

import pytest

from ascend_infer.model import catalogue
from ascend_infer.model.catalogue import BuiltIn, resolve
from kernels_npu.errors import AscendInferError


def failure(name: str) -> AscendInferError:
    with pytest.raises(AscendInferError) as caught:
        resolve(name)
    return caught.value


def test_directory_and_file(llama_dir: Path, tmp_path: Path):
    assert resolve(str(llama_dir)).kind == "safetensors"
    file = tmp_path / "m.gguf"
    file.touch()
    assert resolve(str(file)).kind == "gguf"


def test_unknown_name_lists_what_exists():
    error = failure("llama-900b")
    assert error.code == "AI-MODEL-005"
    assert "smollm2" in (error.fix or "")


def test_directory_without_configuration_names_its_gguf_files(tmp_path: Path):
    (tmp_path / "some.gguf").touch()
    error = failure(str(tmp_path))
    assert error.code == "AI-MODEL-005" and "some.gguf" in error.what


def test_other_file(tmp_path: Path):
    (tmp_path / "model.bin").touch()
    assert failure(str(tmp_path / "model.bin")).code == "AI-MODEL-005"


def test_built_in_without_its_package(monkeypatch: pytest.MonkeyPatch):
    absent = BuiltIn(name="gone", title="Gone", package="no_such_package_x", distribution="gone-x")
    monkeypatch.setattr(catalogue, "BUILT_IN", (absent,))
    error = failure("gone")
    assert error.code == "AI-MODEL-006" and "gone-x" in (error.fix or "")


@pytest.mark.parametrize("name", ["~no_such_user_x/m", "a" * 5000, "a\0b", ""])
def test_names_that_cannot_be_paths(name: str):
    error = failure(name)
    assert error.code == "AI-MODEL-005" and len(error.what) < 6000


def test_a_directory_called_like_a_built_in_model_is_itself(
    llama_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Also when its path is handed to another process."""
    (tmp_path / "smollm2").symlink_to(llama_dir)
    monkeypatch.chdir(tmp_path)
    location = resolve("./smollm2")
    assert location.kind == "safetensors" and resolve(str(location.path)).kind == "safetensors"
