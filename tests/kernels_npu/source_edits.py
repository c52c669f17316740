"""Kernel modules with one line of their source deleted: twins that the checks have to find."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

_SYNCHRONISATION = re.compile(r"\s+T\.(set|wait)_(cross_)?flag\(")


def synchronisation_lines(module: ModuleType) -> dict[int, str]:
    """Line index -> text of every set and wait in `module`'s source."""
    lines = Path(str(module.__file__)).read_text(encoding="utf-8").splitlines()
    return {i: line.strip() for i, line in enumerate(lines) if _SYNCHRONISATION.match(line)}


def without_line(module: ModuleType, line: int | None, folder: Path) -> ModuleType:
    """`module` built again from its source, with line `line` turned into `pass`.

    The copy is a file in `folder`, called `<name>_without_<line>.py`.
    """
    source = Path(str(module.__file__))
    lines = source.read_text(encoding="utf-8").splitlines()
    if line is not None:
        lines[line] = re.sub(r"\S.*", "pass", lines[line])
    file = folder / f"{source.stem}_without_{line}.py"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    twin = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(twin)
    return twin
