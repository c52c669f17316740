"""Folders that are written to: tried, because permissions alone do not tell of a full disk."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def directories(environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Purpose -> folder, whether it can be written to, and free bytes."""
    from kernels_npu.dialect import cache
    from kernels_npu.dialect.installation import ADAPTER

    home = Path(os.path.expanduser("~"))
    logs = environment.get("ASCEND_PROCESS_LOG_PATH") or environment.get("ASCEND_WORK_PATH")
    kernels = environment.get(cache.VARIABLE) or str(cache.own_directory(ADAPTER))
    return {
        "logs": _try(Path(logs) if logs else home / "ascend" / "log"),
        "kernels": _try(Path(kernels)),
        "temporary": _temporary(),
    }


def _try(folder: Path) -> dict[str, Any]:
    """Write into `folder`, or into the folder in which it would be made."""
    place = folder
    while not os.path.lexists(place) and place != place.parent:
        place = place.parent
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
        free = shutil.disk_usage(place).free
    except OSError as error:
        return {"folder": str(folder), "tried": str(place), "why": error.strerror or str(error)}
    return {"folder": str(folder), "tried": str(place), "why": "", "free": free}


def _temporary() -> dict[str, Any]:
    try:
        return _try(Path(tempfile.gettempdir()))
    except OSError as error:
        return {"folder": "", "tried": "", "why": error.strerror or str(error)}
