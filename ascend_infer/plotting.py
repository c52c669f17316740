"""Figures in files. matplotlib is an extra and is imported when a figure is drawn."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from kernels_npu.errors import EnvironmentProblem, UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: File name endings that matplotlib is asked for.
FORMATS = (".png", ".svg")


def require_plotting(path: Path) -> None:
    """Refuse what could not be drawn, before any work is done for it.

    Raises:
        UsageError: AI-CLI-001 for a file that is no PNG or SVG, AI-CLI-004 for one in no folder.
        EnvironmentProblem: AI-CLI-009 when matplotlib is not installed.
    """
    if path.suffix.lower() not in FORMATS:
        raise UsageError(
            "AI-CLI-001",
            f"a plot in {path.name!r}",
            rule=f"plots are files that end in {' or '.join(FORMATS)}",
            fix=f"name it {path.stem or 'plot'}.png",
        )
    if not path.parent.is_dir():
        raise UsageError(
            "AI-CLI-004",
            f"{path}: there is no folder {path.parent}",
            fix="name a file in a folder that can be written",
        )
    try:
        import matplotlib as _  # noqa: F401
    except ImportError as error:
        raise EnvironmentProblem(
            "AI-CLI-009",
            f"a plot needs matplotlib: {error}",
            rule="plots are an extra",
            fix="pip install 'ascend-infer[plot]'",
        ) from error


def save_figure(path: Path, size: tuple[float, float], draw: Callable[[Figure], None]) -> None:
    """Draw into a new figure of `size` inches and write it; an old file stays until then.

    Raises:
        UsageError, EnvironmentProblem: those of `require_plotting`; AI-CLI-004 when the file
            cannot be written.
    """
    require_plotting(path)
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    draw(figure)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        figure.savefig(temporary, dpi=150)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UsageError(
            "AI-CLI-004", f"{path}: {error}", fix="name a file in a folder that can be written"
        ) from error
