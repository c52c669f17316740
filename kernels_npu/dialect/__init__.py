"""`tilelang` and `T` for kernel files: the installed adapter, or else the simulator's.

`installation` tells from the files on disk what is installed; `guard` tells from a kernel file's
text what it is written for. Neither imports a tilelang.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from kernels_npu.dialect import cache
from kernels_npu.dialect.guard import require_adapter
from kernels_npu.dialect.installation import (
    ADAPTER,
    INCOMPLETE,
    MIXED,
    NONE,
    Installation,
    installed,
)
from kernels_npu.errors import EnvironmentProblem

VARIABLE = "ASCEND_INFER_DIALECT"
_OWN_FILES = str(Path(__file__).resolve().parents[1]) + os.sep
_ADAPTER = (
    "tile-ai/tilelang-ascend (distribution `tilelang`, version 0.1.4 or later of that repository)"
)


def choose(installation: Installation, wish: str, simulated: bool) -> str:
    """`adapter` or `simulator`, or why neither.

    Args:
        installation: the tilelang that an import would find.
        wish: value of ASCEND_INFER_DIALECT: `auto`, `sim` or `adapter`.
        simulated: the simulated NPU is the device `npu` of this process.

    Raises:
        EnvironmentProblem: AI-ENV-010, AI-ENV-011, AI-ENV-012 or AI-ENV-014.
    """
    if wish not in ("auto", "sim", "adapter"):
        raise EnvironmentProblem(
            "AI-ENV-012",
            f"{VARIABLE}={wish!r} is none of auto, sim, adapter",
            fix=f"unset {VARIABLE} or set it to sim",
        )
    if wish == "sim" or (simulated and wish == "auto"):
        return "simulator"
    if installation.kind == ADAPTER:
        return "adapter"
    if installation.kind == NONE:
        if wish == "adapter":
            raise EnvironmentProblem(
                "AI-ENV-012",
                f"{VARIABLE}=adapter, but no tilelang is installed",
                fix=f"install {_ADAPTER}, or unset {VARIABLE} to use the simulator",
            )
        return "simulator"
    if installation.kind in (MIXED, INCOMPLETE):
        code = "AI-ENV-011" if installation.kind == MIXED else "AI-ENV-014"
        raise EnvironmentProblem(
            code,
            str(installation),
            rule="all dialects install into the folder `tilelang`, and pip overwrites one by the "
            "other, or removes what both have",
            fix=f"{_removal(installation)}, then install {_ADAPTER}; "
            f"or set {VARIABLE}=sim to use the simulator only",
        )
    raise EnvironmentProblem(
        "AI-ENV-010",
        f"{installation}, not the adapter for Ascend A2/A3",
        rule="these kernels are written in the dialect of tile-ai/tilelang-ascend",
        fix=f"use an environment with {_ADAPTER}; or set {VARIABLE}=sim to use the simulator only",
    )


def _removal(installation: Installation) -> str:
    names = [name.split()[0] for name in installation.distributions]
    if not names:
        return f"remove or rename {installation.directory}"
    return f"pip uninstall {' '.join(names)}; remove {installation.directory}"


def device_is_simulated() -> bool:
    """Whether the device `npu` of this process is the simulated one."""
    device = sys.modules.get("kernels_npu.sim.device")
    return device is not None and bool(device.is_enabled())


@functools.cache
def _load() -> dict[str, Any]:
    chosen = choose(installed(), os.environ.get(VARIABLE, "auto"), device_is_simulated())
    if chosen == "adapter":
        cache.use_own(ADAPTER)
        tilelang = importlib.import_module("tilelang")
        language = importlib.import_module("tilelang.language")
        layouts = importlib.import_module("tilelang.intrinsics")
    else:
        frontend = importlib.import_module("kernels_npu.sim.frontend")
        tilelang, language = frontend.tilelang, frontend.T
        layouts = tilelang.intrinsics
    return {
        "name": chosen,
        "tilelang": tilelang,
        "T": language,
        "make_zn_layout": layouts.make_zn_layout,
    }


@functools.cache
def _require_adapter(file: str) -> None:
    """Look at each kernel file once; those of this package are the adapter's."""
    if not file.startswith(_OWN_FILES):
        require_adapter(file)


def _importer() -> str:
    """The file that asks for one of this module's names, by an import or as an attribute."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return "" if frame is None else frame.f_code.co_filename


if TYPE_CHECKING:
    name: str
    tilelang: Any
    T: Any
    make_zn_layout: Any


def __getattr__(attribute: str) -> Any:
    """Load a dialect at the first use, so that asking about installations loads nothing.

    Raises:
        EnvironmentProblem: AI-ENV-010, AI-ENV-011, AI-ENV-012 or AI-ENV-014.
        ForeignDialect: AI-SRC-022 when the asking file is written for another dialect.
    """
    if attribute not in ("name", "tilelang", "T", "make_zn_layout"):
        raise AttributeError(f"module {__name__!r} has no attribute {attribute!r}")
    value = _load()[attribute]
    if attribute == "name":
        globals()[attribute] = value  # asked for at each launch
    else:
        _require_adapter(_importer())
    return value
