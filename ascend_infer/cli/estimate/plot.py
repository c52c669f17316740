"""The plot of a sweep: one axis along x, one line per combination of the others."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kernels_npu.errors import EnvironmentProblem, UsageError

#: From this ratio on, an axis of numbers is logarithmic.
_WIDE = 8


def draw(
    path: Path,
    axes: Mapping[str, Sequence[Any]],
    points: Sequence[tuple[Mapping[str, Any], Mapping[str, float]]],
) -> None:
    """Write the plot of the points' first figure to a PNG or SVG file.

    Raises:
        UsageError: AI-CLI-001 for another kind of file, AI-CLI-004 where it cannot be written.
        EnvironmentProblem: AI-EST-007 without matplotlib.
    """
    if path.suffix.lower() not in (".png", ".svg"):
        raise UsageError(
            "AI-CLI-001",
            f"--plot {path}",
            rule="plots are .png or .svg",
            fix=f"write to {path.with_suffix('.svg').name}",
        )
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise EnvironmentProblem(
            "AI-EST-007",
            "plots need matplotlib, which is not installed",
            rule="matplotlib belongs to the extra `plot`",
            fix='pip install "ascend-infer[plot]"',
        ) from error
    x = max(axes, key=lambda axis: (_is_numeric(axes[axis]), len(axes[axis])))
    quantity = next(iter(points[0][1]))
    figure = Figure(figsize=(8, 5), layout="constrained")
    plot = figure.add_subplot()
    for label, line in _lines(x, quantity, points).items():
        plot.plot([at for at, _ in line], [y for _, y in line], marker="o", label=label or None)
    if _is_numeric(axes[x]) and max(axes[x]) >= _WIDE * min(axes[x]):
        plot.set_xscale("log", base=2)
        plot.set_xticks(list(axes[x]), [f"{value:,}" for value in axes[x]])
        plot.minorticks_off()
    figures = [point[quantity] for _, point in points]
    if min(figures) > 0 and max(figures) >= _WIDE * min(figures):
        plot.set_yscale("log")
    plot.set_xlabel(x)
    plot.set_ylabel(quantity)
    plot.set_title(f"{quantity} (modelled, a bound by formula)")
    plot.grid(visible=True, alpha=0.3)
    if len(axes) > 1:
        plot.legend()
    _save(figure, path)


def _lines(
    x: str, quantity: str, points: Sequence[tuple[Mapping[str, Any], Mapping[str, float]]]
) -> dict[str, list[tuple[Any, float]]]:
    lines: dict[str, list[tuple[Any, float]]] = {}
    for labels, figures in points:
        others = ", ".join(f"{name} {value}" for name, value in labels.items() if name != x)
        at = labels[x] if _is_numeric((labels[x],)) else str(labels[x])
        lines.setdefault(others, []).append((at, figures[quantity]))
    return lines


def _is_numeric(values: Sequence[Any]) -> bool:
    return all(isinstance(value, (int, float)) for value in values)


def _save(figure: Any, path: Path) -> None:
    """To a temporary name, then in place: a plot that exists is whole."""
    try:
        handle, name = tempfile.mkstemp(suffix=path.suffix, dir=path.parent)
        os.close(handle)
        try:
            figure.savefig(name, dpi=150)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise UsageError(
            "AI-CLI-004", f"--plot {path}: {error}", fix="choose a folder that can be written"
        ) from error
