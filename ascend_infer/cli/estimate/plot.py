"""The plot of a sweep: one axis along x, one line per combination of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ascend_infer.plotting import save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: From this ratio on, an axis of numbers is logarithmic.
_WIDE = 4
#: Of an axis with a tick at every value; more would overlap.
_MOST_TICKS = 10


def draw(
    path: Path,
    subject: str,
    axes: Mapping[str, Sequence[Any]],
    points: Sequence[tuple[Mapping[str, Any], Mapping[str, float]]],
) -> None:
    """Write the plot of the points' first figure to a PNG or SVG file; `subject` is its title.

    Raises:
        UsageError, EnvironmentProblem: as `ascend_infer.plotting.save_figure`.
    """
    x = max(axes, key=lambda axis: (_is_numeric(axes[axis]), len(axes[axis])))
    quantity = next(iter(points[0][1]))

    def fill(figure: Figure) -> None:
        plot = figure.add_subplot(title=f"{subject} (modelled, by formula)")
        _draw(plot, x, quantity, axes, points)

    save_figure(path, (8.0, 5.0), fill)


def _draw(
    plot: Axes,
    x: str,
    quantity: str,
    axes: Mapping[str, Sequence[Any]],
    points: Sequence[tuple[Mapping[str, Any], Mapping[str, float]]],
) -> None:
    from matplotlib.ticker import LogFormatter

    for label, line in _lines(x, quantity, points).items():
        plot.plot([at for at, _ in line], [y for _, y in line], marker="o", label=label or None)
    if _is_numeric(axes[x]):
        if max(axes[x]) >= _WIDE * min(axes[x]) > 0:
            plot.set_xscale("log", base=2)
        if len(axes[x]) <= _MOST_TICKS:
            plot.set_xticks(list(axes[x]), [f"{value:,}" for value in axes[x]])
            plot.minorticks_off()
    figures = [point[quantity] for _, point in points]
    if min(figures) > 0 and max(figures) >= _WIDE * min(figures):
        plot.set_yscale("log")
        plot.yaxis.set_major_formatter(LogFormatter())  # 6, not 6 x 10^0
        plot.yaxis.set_minor_formatter(LogFormatter())
    plot.set_xlabel(x)
    plot.set_ylabel(quantity)
    plot.grid(visible=True, alpha=0.3)
    if len(axes) > 1:
        plot.legend()


def _lines(
    x: str, quantity: str, points: Sequence[tuple[Mapping[str, Any], Mapping[str, float]]]
) -> dict[str, list[tuple[Any, float]]]:
    lines: dict[str, list[tuple[Any, float]]] = {}
    for labels, figures in points:
        others = ", ".join(f"{name} {_text(labels[name])}" for name in labels if name != x)
        at = labels[x] if _is_numeric((labels[x],)) else str(labels[x])
        lines.setdefault(others, []).append((at, figures[quantity]))
    return lines


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _is_numeric(values: Sequence[Any]) -> bool:
    return all(isinstance(value, (int, float)) for value in values)
