"""Folders that look like the installations of each project: real file names, no code."""

from __future__ import annotations

from pathlib import Path

COMMON = ("language/__init__.py", "env.py", "version.py", "jit/__init__.py")
FILES = {
    "adapter": ("language/ascend_tile.py", "language/reduce_ascend.py", "language/pto.py"),
    "mainline-ascend": (
        *("ascend/__init__.py", "ascend/language/__init__.py", "tileop/__init__.py"),
        "cuda/language/__init__.py",
    ),
    "mainline": ("tileop/__init__.py", "dtypes.py", "cuda/language/__init__.py"),
    "npuir": ("jit/jit_npu.py", "language/customize_npuir.py"),
}


def install(root: Path, kind: str, *, distribution: str = "", record: bool = True) -> Path:
    """Write `kind` into `root`/tilelang, over what is there; importing it fails.

    distribution: `tilelang 0.1.15`, for which metadata is written as pip does; `record`: with the
    list of files.
    """
    directory = root / "tilelang"
    files = ("__init__.py", *COMMON, *FILES[kind])
    for name in files:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).touch()
    (directory / "__init__.py").write_text("raise AssertionError('tilelang was imported')\n")
    if distribution:
        name, version = distribution.split()
        metadata = root / f"{name.replace('-', '_')}-{version}.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\n")
        if record:
            lines = [f"tilelang/{file},sha256=x,1" for file in files]
            (metadata / "RECORD").write_text("\n".join([*lines, f"{metadata.name}/RECORD,,"]))
    return directory
