"""Run an unmodified tilelang-ascend script on the simulated device (`ascend-infer sim run`)."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernels_npu.errors import UsageError
from kernels_npu.sim.device.setup import enable


def run_script(path: str | Path, argv: Sequence[str] = ()) -> dict[str, Any]:
    """Execute the file `path` as `__main__` with `argv` as its command line.

    `import tilelang` gives the simulator's front end, `import torch_npu` the stand-in, and device
    `npu` the simulated NPU. `sys.argv` and `sys.path` are put back afterwards.

    Returns:
        The script's global names.

    Raises:
        UsageError: AI-DEV-012 when the file cannot be read. What the script raises passes through,
            SystemExit included.
    """
    script = Path(path)
    if not script.is_file():
        raise UsageError(
            "AI-DEV-012",
            f"{script} is not a file",
            fix="pass the path of a Python script",
        )
    enable()
    from kernels_npu.sim.frontend.shims import install_shims

    install_shims()
    saved_argv, saved_path = sys.argv, list(sys.path)
    sys.argv = [str(script), *argv]
    sys.path.insert(0, str(script.resolve().parent))
    try:
        return runpy.run_path(str(script), run_name="__main__")
    finally:
        sys.argv = saved_argv
        sys.path[:] = saved_path
