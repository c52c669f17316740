"""Which TileLang is installed: told from the files on disk, without importing any of them.

Three projects install the folder `tilelang`, two of them as the distribution `tilelang` and with
each other's version numbers, so neither name nor version tells them apart. Files that only one of
them has do, and pip's RECORD tells whether they belong to the distribution that pip knows.
Importing the wrong one would load a TVM that the other cannot live beside.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

NONE, ADAPTER, MAINLINE, MAINLINE_ASCEND, NPUIR = (
    "none",
    "adapter",
    "mainline",
    "mainline-ascend",
    "npuir",
)
MIXED, INCOMPLETE = "mixed", "incomplete"

#: Kind of installation -> what it is, for messages.
DESCRIPTIONS = {
    NONE: "no tilelang",
    ADAPTER: "tilelang-ascend, the adapter for A2 and A3",
    MAINLINE: "mainline TileLang without an Ascend backend",
    MAINLINE_ASCEND: "mainline TileLang, whose Ascend backend is for the 950 only",
    NPUIR: "tilelang-mlir-ascend, the npuir dialect",
    MIXED: "a mixture of dialects",
    INCOMPLETE: "a part of tilelang",
}
#: Kind -> files of which it has at least one, and no other kind has any.
MARKS = {
    ADAPTER: ("language/ascend_tile.py",),
    MAINLINE_ASCEND: ("ascend/language/__init__.py",),
    NPUIR: ("language/customize_npuir.py", "jit/jit_npu.py"),
}
#: What mainline of any kind has since 0.1.8, and the forks from earlier releases lack.
_MAINLINE_MARK = "tileop/__init__.py"
#: Without these nothing can be imported.
_ESSENTIAL = ("__init__.py", "language/__init__.py")


@dataclass(frozen=True, kw_only=True)
class Installation:
    """The tilelang that an import would find.

    Attributes:
        directory: its folder, or the file of that name; None when there is none.
        kind: a key of `DESCRIPTIONS`.
        distributions: what pip has installed into the folder, as `tilelang 0.1.15`; none for a
            source tree on PYTHONPATH.
        reason: what a mixed or incomplete installation was recognised by.
    """

    directory: Path | None
    kind: str
    distributions: tuple[str, ...] = ()
    reason: str = ""

    def __str__(self) -> str:
        if self.directory is None:
            return "no tilelang is installed"
        names = " and ".join(self.distributions) or "tilelang"
        reason = f": {self.reason}" if self.reason else ""
        return f"{names} in {self.directory} is {DESCRIPTIONS[self.kind]}{reason}"


def tilelang_directory() -> Path | None:
    """What `import tilelang` would load, found without importing anything: a folder, or a file."""
    for finder in sys.meta_path:
        find_spec = getattr(finder, "find_spec", None)
        try:
            spec = find_spec("tilelang", None) if find_spec else None
        except Exception:  # noqa: BLE001 - a finder of somebody else's package
            continue
        if spec is not None and spec.submodule_search_locations:
            # Some editable installations have other folders, with libraries, before this one.
            if spec.has_location and spec.origin:
                return Path(spec.origin).parent
            return Path(next(iter(spec.submodule_search_locations)))
        if spec is not None and spec.has_location and spec.origin:
            return Path(spec.origin)
    return None


def installed() -> Installation:
    """The tilelang of this interpreter's path."""
    return inspect_directory(tilelang_directory())


def inspect_directory(directory: Path | None) -> Installation:
    """What the folder `directory` holds."""
    if directory is None:
        return Installation(directory=None, kind=NONE)
    if _is_file(directory):
        reason = "a single file, which hides any package of that name"
        return Installation(directory=directory, kind=INCOMPLETE, reason=reason)
    records = tuple(_records(directory))
    names = tuple(name for name, _ in records)
    marks = {kind: _first(directory, files) for kind, files in MARKS.items()}
    found = {kind: mark for kind, mark in marks.items() if mark}
    mainline = _first(directory, (_MAINLINE_MARK,))
    if mainline and MAINLINE_ASCEND not in found:
        found[MAINLINE] = mainline
    reason = _mixture(found, records)
    if reason:
        return Installation(directory=directory, kind=MIXED, distributions=names, reason=reason)
    missing = [name for name in _ESSENTIAL if not _is_file(directory / name)]
    if len(missing) == len(_ESSENTIAL) and not (found or records):
        # Somebody's folder of this name, such as a clone: Python takes it for a package.
        return Installation(directory=None, kind=NONE)
    if missing:
        reason = f"{' and '.join(missing)} missing"
        return Installation(
            directory=directory, kind=INCOMPLETE, distributions=names, reason=reason
        )
    kind = next(iter(found), MAINLINE)
    return Installation(directory=directory, kind=kind, distributions=names)


def _mixture(found: dict[str, str], records: tuple[tuple[str, str], ...]) -> str:
    """Why the folder holds more than one dialect; empty when it does not."""
    if len(found) > 1:
        return "it has " + " and ".join(f"{mark} ({kind})" for kind, mark in found.items())
    if len(records) > 1:
        return f"{' and '.join(name for name, _ in records)} were installed over each other"
    for name, record in records:
        for kind, mark in found.items():
            if record and f"tilelang/{mark}" not in record:
                return f"{mark} ({kind}) is not a file of {name}, the distribution that pip knows"
        lost = [
            files[0]
            for kind, files in MARKS.items()
            if kind not in found and f"tilelang/{files[0]}," in record
        ]
        if lost:
            return f"{name} installed {lost[0]}, which is gone"
    return ""


def _records(directory: Path) -> Iterator[tuple[str, str]]:
    """The distributions that installed into `directory`, each with the text of its RECORD.

    Only metadata whose name speaks of tilelang is looked into: to open a file of each of thousands
    of packages takes too long. Dialects over each other are seen by their own files anyway.
    """
    try:
        entries = os.listdir(directory.parent)
    except OSError:
        return
    for folder in sorted(
        e for e in entries if e.endswith(".dist-info") and "tilelang" in e.lower()
    ):
        name, _, version = folder.removesuffix(".dist-info").partition("-")
        record = _text(directory.parent / folder / "RECORD")
        if not record or "tilelang/__init__.py," in record:
            yield f"{name.replace('_', '-')} {version}".strip(), record


def _first(directory: Path, files: tuple[str, ...]) -> str:
    return next((name for name in files if _is_file(directory / name)), "")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
