"""Files of releases through pip, and repositories through git, kept between runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ascend_infer.vllm_plugin.host import ASCEND
from ascend_infer.vllm_plugin.pins import pinned

#: What is checked by default: wheels for CPython 3.11 on x86_64, else source distributions.
RELEASES = (
    "torch_npu==2.9.0.post9",
    "torch_npu==2.11.0.post3",
    "torch_npu==2.12.0.post3",
    "torch_npu==2.13.0",
    "torch_npu==2.14.0",
    *(f"{ASCEND.package}=={release}" for release in pinned()[ASCEND.name]),
)
GIT = "git+"
_PLATFORMS = tuple(f"manylinux_2_{glibc}_x86_64" for glibc in (34, 28, 24))
_WHEELS = ["--only-binary", ":all:", "--python-version", "3.11"]
_WHEELS += [word for platform in _PLATFORMS for word in ("--platform", platform)]
#: pip runs the build script of a source distribution for its metadata. That of vllm-ascend imports
#: these two and asks which chip to build for; what it requires besides would be gigabytes.
_SDIST_IMPORTS = ("setuptools", "setuptools-scm")
_SDIST_SETTINGS = {"SOC_VERSION": "ascend910b1", "COMPILE_CUSTOM_KERNELS": "0"}


def fetched(name: str, cache: Path) -> Path:
    """Where the files are of `torch_npu==2.13.0`, of `git+ADDRESS[@COMMIT]`, or of a path.

    Raises:
        OSError: pip or git found none.
    """
    if name.startswith(GIT):
        return clone(name, cache)
    return download(name, cache) if "==" in name and not Path(name).exists() else Path(name)


def download(requirement: str, cache: Path) -> Path:
    """The wheel or else the source distribution, from pip or from an earlier download.

    Raises:
        OSError: pip found none.
        ValueError: the requirement names no version.
    """
    name, _, version = requirement.partition("==")
    if not version:
        raise ValueError(f"{requirement} names no version, expected NAME==VERSION")
    stem = f"{name.replace('-', '_')}-{version}"
    found = _kept(cache, stem)
    if found is None:
        cache.mkdir(parents=True, exist_ok=True)
        try:
            _download(name, requirement, cache)
        except OSError as error:
            raise OSError(f"pip download {requirement}: {error}") from error
        found = _kept(cache, stem)
    if found is None:
        raise OSError(f"pip download {requirement}: it left no file in {cache}")
    return found


def _kept(cache: Path, stem: str) -> Path | None:
    files = [path for end in ("-*.whl", ".tar.gz") for path in sorted(cache.glob(stem + end))]
    return files[0] if files else None


def _download(name: str, requirement: str, cache: Path) -> None:
    pip = [sys.executable, "-m", "pip"]
    get = [*pip, "download", "--quiet", "--no-deps", "--dest", str(cache)]
    try:
        _run([*get, *_WHEELS, requirement])
        return
    except OSError as error:
        if name != "vllm_ascend":  # of the others a source distribution says too little
            raise error from None
    imports = cache / "imports"
    if not imports.is_dir():
        _run([*pip, "install", "--quiet", "--target", str(imports), *_SDIST_IMPORTS])
    path = os.pathsep.join(filter(None, [str(imports), os.environ.get("PYTHONPATH", "")]))
    sdist = ["--no-build-isolation", "--no-binary", name, requirement]
    _run([*get, *sdist], {**_SDIST_SETTINGS, "PYTHONPATH": path})


def clone(address: str, cache: Path) -> Path:
    """The newest commit of `git+ADDRESS`, or COMMIT (a branch, tag or hash) of `...@COMMIT`.

    Raises:
        OSError: git could not fetch it.
    """
    url, at, commit = address.removeprefix(GIT).rpartition("@")
    if not at or "/" in commit:  # no commit, or the @ of user@host
        url, commit = address.removeprefix(GIT), "HEAD"
    folder = cache / f"{Path(url).name.removesuffix('.git')}@{commit}"
    folder.mkdir(parents=True, exist_ok=True)
    git = ["git", "-C", str(folder)]
    _run([*git, "init", "--quiet"])
    _run([*git, "fetch", "--quiet", "--depth", "1", url, commit])
    _run([*git, "checkout", "--quiet", "--force", "FETCH_HEAD"])
    return folder


def _run(command: Sequence[str], settings: Mapping[str, str] | None = None) -> None:
    environment = {**os.environ, **(settings or {})}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise OSError(next((x for x in reversed(lines) if "error" in x.lower()), lines[-1]))
