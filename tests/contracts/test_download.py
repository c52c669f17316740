"""Where files come from: pip's wheels, its source distributions, git."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

import pytest
from contract_suite.download import fetched
from contract_suite.packages import Package

from tests.contracts.archives import wheel
from tests.contracts.made_up_host import HOST, release


@pytest.fixture
def pip(tmp_path, monkeypatch):
    """A pip that has a wheel of torch_npu 9.1 and a source distribution of vllm_ascend 9.2."""
    commands = []

    def run(command, **options):
        commands.append((command, options["env"]))
        if command[-1] == "torch_npu==9.1":
            wheel(tmp_path)
        elif command[-1] == "vllm_ascend==9.2" and "--no-build-isolation" in command:
            release(tmp_path, "9.2")
        elif "--target" not in command:
            said = "WARNING: x\nERROR: No matching distribution\nhint: see above\n"
            return SimpleNamespace(returncode=1, stderr=said)
        return SimpleNamespace(returncode=0, stderr="")

    monkeypatch.setattr(subprocess, "run", run)
    return commands


def test_a_download_is_made_once_and_a_failed_one_is_said(pip, tmp_path):
    for _ in range(2):
        assert fetched("torch_npu==9.1", tmp_path).name.startswith("torch_npu-9.1-")
    assert len(pip) == 1 and {"--no-deps", ":all:"} <= set(pip[0][0])
    for requirement in ("torch_npu==9.2", "vllm_ascend==9.3"):
        with pytest.raises(OSError, match=rf"{requirement}: ERROR: No matching"):
            fetched(requirement, tmp_path)
    with pytest.raises(ValueError, match="names no version"):
        fetched("torch_npu==", tmp_path)


def test_a_release_without_wheels_is_its_source_distribution(pip, tmp_path):
    for _ in range(2):
        assert fetched("vllm_ascend==9.2", tmp_path).name == "vllm_ascend-9.2.tar.gz"
    (_, (imports, _), (sdist, environment)) = pip
    assert "setuptools-scm" in imports and str(tmp_path / "imports") in imports
    assert sdist[-3:] == ["--no-binary", "vllm_ascend", "vllm_ascend==9.2"]
    assert environment["PYTHONPATH"].startswith(str(tmp_path / "imports"))
    assert environment["COMPILE_CUSTOM_KERNELS"] == "0"


def git(folder, *words):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run(["git", "-C", str(folder), *identity, *words], check=True, capture_output=True)


def test_a_repository_at_a_commit_and_at_its_newest(tmp_path):
    repository, cache = tmp_path / "host.git", tmp_path / "cache"
    for name, text in HOST.items():
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text(text)
    git(tmp_path, "init", "--quiet", str(repository))
    git(repository, "add", ".")
    git(repository, "commit", "-m", "first")
    git(repository, "tag", "v1")
    address = f"git+file://{repository}"
    assert fetched(f"{address}@v1", cache) == cache / "host@v1"
    newest = fetched(address, cache)
    package = Package(newest)
    assert package.origin.version == "host@HEAD"
    assert package.files("vllm_ascend/ops/") == sorted(n for n in HOST if "/ops/" in n)
    (repository / "vllm_ascend/utils.py").write_text("new = 1\n")
    git(repository, "commit", "-am", "second")
    assert Package(fetched(address, cache)).text("vllm_ascend/utils.py") == "new = 1\n"
    first = Package(fetched(f"{address}@v1", cache))
    assert first.text("vllm_ascend/utils.py") == HOST["vllm_ascend/utils.py"]
    assert first.origin.sha256 != Package(newest).origin.sha256
    with pytest.raises(OSError, match="v2"):
        fetched(f"{address}@v2", cache)


@pytest.mark.parametrize(
    ("file", "text", "version"),
    [("PKG-INFO", "Name: a\nVersion: 0.9.dev1\n", "0.9.dev1"), ("VERSION", "0.8\n", "0.8")],
)
def test_a_folder_tells_its_version(tmp_path, file, text, version):
    (tmp_path / "vllm_ascend").mkdir()
    (tmp_path / "vllm_ascend/__init__.py").write_text("")
    assert Package(tmp_path).origin.version == tmp_path.name
    (tmp_path / file).write_text(text)
    assert Package(tmp_path).origin.version == version
