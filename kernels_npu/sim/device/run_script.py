"""Run an unmodified tilelang-ascend script on the simulated device (`ascend-infer sim run`)."""

from __future__ import annotations

import contextlib
import importlib.util
import runpy
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kernels_npu.dialect.guard import require_adapter
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
        ForeignDialect: AI-SRC-022 when the file is written for another dialect; it is not executed.
    """
    script = Path(path)
    if not script.is_file():
        raise UsageError(
            "AI-DEV-012",
            f"{script} is not a file",
            fix="pass the path of a Python script",
        )
    require_adapter(script)
    with _as_command(str(script), argv, import_from=script.resolve().parent):
        return runpy.run_path(str(script), run_name="__main__")


def run_module(name: str, argv: Sequence[str] = ()) -> dict[str, Any]:
    """Execute the module or package `name` as `python -m` does; otherwise like `run_script`.

    Raises:
        UsageError: AI-DEV-012 when there is no such module.
        ForeignDialect: AI-SRC-022 when the module is written for another dialect.
    """
    with _as_command(name, argv, import_from=Path.cwd()):
        try:
            found = importlib.util.find_spec(name)
        except (ImportError, ValueError) as error:
            raise _no_module(name) from error
        if found is None:
            raise _no_module(name)
        if found.origin is not None:
            require_adapter(found.origin)
        return runpy.run_module(name, run_name="__main__", alter_sys=True)


def _no_module(name: str) -> UsageError:
    return UsageError(
        "AI-DEV-012",
        f"there is no module {name!r} to run",
        rule="-m takes the name of a module or package that can be imported here",
        fix="leave -m out to run a file",
    )


@contextlib.contextmanager
def _as_command(program: str, argv: Sequence[str], *, import_from: Path) -> Iterator[None]:
    """The simulated device and the shims, `sys.argv`, and where imports look first."""
    enable()
    from kernels_npu.sim.frontend.shims import install_shims

    install_shims()
    saved_argv, saved_path = sys.argv, list(sys.path)
    sys.argv = [program, *argv]
    sys.path.insert(0, str(import_from))
    try:
        yield
    finally:
        sys.argv = saved_argv
        sys.path[:] = saved_path
