"""`tilelang` and `T` for kernel files: the installed adapter, or else the simulator's.

Three distributions share the import name `tilelang` and even each other's version numbers. They are
told apart by the files they install, before anything of them is imported: importing the wrong one
loads a TVM that the other cannot live beside.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels_npu.errors import EnvironmentProblem

VARIABLE = "ASCEND_INFER_DIALECT"
#: Kind of installation -> the file that only this kind has.
_MARKERS = {
    "mainline-ascend": "ascend/language/__init__.py",
    "adapter": "language/ascend_tile.py",
    "npuir": "jit/jit_npu.py",
}
_ADAPTER = (
    "tile-ai/tilelang-ascend (distribution `tilelang`, version 0.1.4 or later of that repository)"
)


def tilelang_directory() -> Path | None:
    """Where `import tilelang` would look, found without importing anything."""
    for finder in sys.meta_path:
        find_spec = getattr(finder, "find_spec", None)
        spec = find_spec("tilelang", None) if find_spec else None
        if spec is not None and spec.submodule_search_locations:
            return Path(next(iter(spec.submodule_search_locations)))
    return None


def kind_of_installation(directory: Path | None) -> str:
    """`none`, `adapter`, `mainline-ascend`, `npuir`, `mainline` or `mixed`."""
    if directory is None:
        return "none"
    found = [kind for kind, marker in _MARKERS.items() if (directory / marker).is_file()]
    if "adapter" in found and "mainline-ascend" in found:
        return "mixed"
    return found[0] if found else "mainline"


def choose(directory: Path | None, wish: str, simulated: bool) -> str:
    """`adapter` or `simulator`, or why neither.

    Args:
        directory: of the installed tilelang, or None.
        wish: value of ASCEND_INFER_DIALECT: `auto`, `sim` or `adapter`.
        simulated: the simulated NPU is the device `npu` of this process.

    Raises:
        EnvironmentProblem: AI-ENV-010, AI-ENV-011 or AI-ENV-012.
    """
    if wish not in ("auto", "sim", "adapter"):
        raise EnvironmentProblem(
            "AI-ENV-012",
            f"{VARIABLE}={wish!r} is none of auto, sim, adapter",
            fix=f"unset {VARIABLE} or set it to sim",
        )
    if wish == "sim" or (simulated and wish == "auto"):
        return "simulator"
    kind = kind_of_installation(directory)
    if kind == "adapter":
        return "adapter"
    if kind == "none":
        if wish == "adapter":
            raise EnvironmentProblem(
                "AI-ENV-012",
                f"{VARIABLE}=adapter, but no tilelang is installed",
                fix=f"install {_ADAPTER}, or unset {VARIABLE} to use the simulator",
            )
        return "simulator"
    if kind == "mixed":
        raise EnvironmentProblem(
            "AI-ENV-011",
            f"{directory} holds files of both mainline tilelang and the Ascend adapter",
            rule="both install into the folder `tilelang`, and pip overwrites one by the other",
            fix=f"pip uninstall tilelang, remove {directory}, then install {_ADAPTER}; "
            f"or set {VARIABLE}=sim to use the simulator only",
        )
    raise EnvironmentProblem(
        "AI-ENV-010",
        f"the tilelang in {directory} is {_DESCRIPTION[kind]}, not the adapter for Ascend A2/A3",
        rule="these kernels are written in the dialect of tile-ai/tilelang-ascend",
        fix=f"use an environment with {_ADAPTER}; or set {VARIABLE}=sim to use the simulator only",
    )


_DESCRIPTION = {
    "mainline-ascend": "mainline (its Ascend backend is for the 950 only)",
    "npuir": "the npuir dialect",
    "mainline": "mainline without an Ascend backend",
}


def device_is_simulated() -> bool:
    """Whether the device `npu` of this process is the simulated one."""
    device = sys.modules.get("kernels_npu.sim.device")
    return device is not None and bool(device.is_enabled())


def _load() -> dict[str, Any]:
    chosen = choose(tilelang_directory(), os.environ.get(VARIABLE, "auto"), device_is_simulated())
    if chosen == "adapter":
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


if TYPE_CHECKING:
    name: str
    tilelang: Any
    T: Any
    make_zn_layout: Any


def __getattr__(attribute: str) -> Any:
    """Load a dialect at the first use, so that asking about installations loads nothing."""
    if attribute not in ("name", "tilelang", "T", "make_zn_layout"):
        raise AttributeError(f"module {__name__!r} has no attribute {attribute!r}")
    globals().update(_load())
    return globals()[attribute]
