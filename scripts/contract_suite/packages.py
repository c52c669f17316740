"""Source text of a package: from a wheel, an sdist or a folder, never imported or unpacked."""

from __future__ import annotations

import functools
import hashlib
import re
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_NATIVE = re.compile(r"/(_C[^/]*|lib/libtorch_npu)\.so$")


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Which file was read."""

    file: str
    version: str
    sha256: str


class Package:
    """The Python files of one archive or folder by path, and names in its native libraries.

    Raises:
        ValueError: the file is no wheel, sdist or folder, or is damaged.
        OSError: it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._members = _members(path)
        except (zipfile.BadZipFile, tarfile.TarError, EOFError) as error:
            raise ValueError(f"{path} is no wheel, sdist or folder: {error}") from error

    def text(self, member: str) -> str | None:
        """The text of a Python file, `torch_npu/npu/graphs.py`; None when there is no such file."""
        read = self._members.get(member)
        return None if read is None else read().decode("utf-8", errors="replace")

    @functools.cached_property
    def native(self) -> bytes:
        """The native libraries that define names of Python and operators, one after another."""
        return b"\0".join(read() for m, read in self._members.items() if _NATIVE.search(m))

    def has_native_name(self, name: str) -> bool:
        """Whether a native library holds `name` as a whole string, as it must to export it."""
        return b"\0" + name.encode() + b"\0" in self.native

    def has_native_module(self, module: str) -> bool:
        """Whether the package holds the compiled module, `torch_npu._C`."""
        start = module.replace(".", "/") + "."
        return any(m.startswith(start) and m.endswith(".so") for m in self._members)

    def files(self, folder: str) -> list[str]:
        """Python files below `folder`."""
        return sorted(m for m in self._members if m.startswith(folder) and m.endswith(".py"))

    @functools.cached_property
    def origin(self) -> Origin:
        """Name, version and hash of the archive; of a folder, the hash of its packages' files."""
        if self.path.is_dir():
            return self._origin_of_tree()
        parts = re.sub(r"\.(tar\.gz|whl)$", "", self.path.name).split("-")
        digest = hashlib.sha256(self.path.read_bytes()).hexdigest()
        version = parts[1] if len(parts) > 1 else "?"
        return Origin(file=self.path.name, version=version, sha256=digest)

    def _origin_of_tree(self) -> Origin:
        packages = [name for name in ("tilelang", "vllm_ascend") if self.files(f"{name}/")]
        files = [file for name in packages for file in self.files(f"{name}/")]
        text = "\0".join(f"{file}\0{self.text(file)}" for file in files)
        digest = hashlib.sha256(text.encode()).hexdigest()
        named = ", ".join(f"{name}/**/*.py" for name in packages)
        return Origin(file=named, version=_version_of_tree(self.path), sha256=digest)


def _version_of_tree(folder: Path) -> str:
    """Of an unpacked source distribution or a clone; the folder's name where neither is told."""
    if (folder / "VERSION").exists():
        return (folder / "VERSION").read_text(encoding="utf-8").strip()
    if (folder / "PKG-INFO").exists():
        lines = (folder / "PKG-INFO").read_text(encoding="utf-8").splitlines()
        told = (line.partition(":")[2].strip() for line in lines if line.startswith("Version:"))
        return next(told, folder.resolve().name)
    return folder.resolve().name


def _members(path: Path) -> dict[str, Callable[[], bytes]]:
    """How to read each file, by its path in the package."""
    if path.is_dir():
        files = {file.relative_to(path).as_posix(): file for file in path.rglob("*.py")}
        return {name: file.read_bytes for name, file in files.items()}
    if path.name.endswith(".tar.gz"):
        return _sdist(path)
    archive = zipfile.ZipFile(path)
    return {name: functools.partial(archive.read, name) for name in archive.namelist()}


def _sdist(path: Path) -> dict[str, Callable[[], bytes]]:
    """Without its leading folder. All Python files at once: such an archive has no index."""
    found: dict[str, Callable[[], bytes]] = {}
    with tarfile.open(path) as archive:
        for entry in archive:
            file = archive.extractfile(entry) if entry.name.endswith(".py") else None
            if file is not None:
                found[entry.name.partition("/")[2]] = functools.partial(bytes, file.read())
    return found
