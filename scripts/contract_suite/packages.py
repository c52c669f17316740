"""Source text of a package: from a wheel, an sdist or a folder, never imported or unpacked."""

from __future__ import annotations

import functools
import hashlib
import re
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Which file was read."""

    file: str
    version: str
    sha256: str


class Package:
    """The Python files of one archive or folder by path, and names in its native libraries."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._members = _members(path)

    def text(self, member: str) -> str | None:
        """The text of a Python file, `torch_npu/npu/graphs.py`; None when there is no such file."""
        if member not in self._members:
            return None
        return _read(self.path, self._members[member]).decode("utf-8", errors="replace")

    @functools.cached_property
    def _native(self) -> bytes:
        wanted = [m for m in self._members if re.search(r"/(_C[^/]*|lib/libtorch_npu)\.so$", m)]
        return b"\0".join(_read(self.path, self._members[m]) for m in wanted)

    def has_native_name(self, name: str) -> bool:
        """Whether a native library holds `name` as a whole string, as it must to export it."""
        return b"\0" + name.encode() + b"\0" in self._native

    def has_native_module(self, module: str) -> bool:
        """Whether the package holds the compiled module, `torch_npu._C`."""
        start = module.replace(".", "/") + "."
        return any(m.startswith(start) and m.endswith(".so") for m in self._members)

    def files(self, folder: str) -> list[str]:
        """Python files below `folder`."""
        return sorted(m for m in self._members if m.startswith(folder) and m.endswith(".py"))

    @functools.cached_property
    def origin(self) -> Origin:
        """Name, version and hash of the archive; of a clone, the hash of its package's files."""
        if self.path.is_dir():
            files = self.files("tilelang/")
            text = "\0".join(f"{file}\0{self.text(file)}" for file in files)
            version = (self.path / "VERSION").read_text(encoding="utf-8").strip()
            digest = hashlib.sha256(text.encode()).hexdigest()
            return Origin(file="tilelang/**/*.py", version=version, sha256=digest)
        parts = re.sub(r"\.(tar\.gz|whl)$", "", self.path.name).split("-")
        digest = hashlib.sha256(self.path.read_bytes()).hexdigest()
        version = parts[1] if len(parts) > 1 else "?"
        return Origin(file=self.path.name, version=version, sha256=digest)


def download(requirement: str, cache: Path) -> Path:
    """The wheel of `requirement`, `torch_npu==2.13.0`, from pip or from an earlier download.

    Raises:
        OSError: pip found none.
    """
    name, _, version = requirement.partition("==")
    found = sorted(cache.glob(f"{name}-{version}-*.whl"))
    if not found:
        cache.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--dest", str(cache)]
        command += ["--only-binary", ":all:", "--python-version", "3.11"]
        command += ["--platform", "manylinux_2_28_x86_64", requirement]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = sorted(cache.glob(f"{name}-{version}-*.whl"))
        if done.returncode or not found:
            reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise OSError(f"pip download {requirement}: {reason}")
    return found[0]


def _members(path: Path) -> dict[str, str]:
    """Path in the package to name in the archive; an sdist's leading folder is left out."""
    if path.is_dir():
        return {
            file.relative_to(path).as_posix(): file.relative_to(path).as_posix()
            for file in path.rglob("*.py")
        }
    if path.name.endswith(".tar.gz"):
        with tarfile.open(path) as archive:
            return {name.partition("/")[2]: name for name in archive.getnames()}
    with zipfile.ZipFile(path) as archive:
        return {name: name for name in archive.namelist()}


def _read(path: Path, member: str) -> bytes:
    if path.is_dir():
        return (path / member).read_bytes()
    if path.name.endswith(".tar.gz"):
        with tarfile.open(path) as archive:
            file = archive.extractfile(member)
            return file.read() if file else b""
    with zipfile.ZipFile(path) as archive:
        return archive.read(member)
