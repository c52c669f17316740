"""Python packages: what pip knows, what can be imported, and which TileLang is there."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
from typing import Any

from ascend_infer.doctor.probes.causes import cause
from ascend_infer.doctor.requirements import DISTRIBUTIONS, OPTIONAL, REQUIRED


def versions() -> dict[str, Any]:
    """Distribution -> version; `unknown` when only the package is there, None when neither is."""
    return {name: _version(name, module) for name, module in DISTRIBUTIONS.items()}


def _version(distribution: str, module: str) -> str | None:
    from importlib import metadata

    with contextlib.suppress(Exception):  # absent, or metadata that cannot be read
        if version := metadata.version(distribution):
            return str(version)
    with contextlib.suppress(Exception):
        return "unknown" if importlib.util.find_spec(module) is not None else None
    return None


def dialect() -> dict[str, Any]:
    """Which TileLang is installed, and which one kernel files would get."""
    from kernels_npu import dialect
    from kernels_npu.dialect.installation import installed
    from kernels_npu.errors import AscendInferError

    found = installed()
    answer: dict[str, Any] = {"installed": found.kind, "description": str(found)}
    try:
        answer["chosen"] = dialect.choose(found, os.environ.get(dialect.VARIABLE, "auto"), False)
    except AscendInferError as error:
        answer.update(chosen=None, code=error.code, why=error.what, fix=error.fix)
    return answer


def imports() -> dict[str, Any]:
    """Package -> why it cannot be imported. Installed is not usable: a library can be missing."""
    broken = {}
    for name in (*REQUIRED, *OPTIONAL):
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                broken[name] = cause(error)
        except Exception as error:  # noqa: BLE001 - whatever a broken package raises
            broken[name] = cause(error)
    return broken
