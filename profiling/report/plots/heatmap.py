"""How evenly a launch keeps its cores busy: one column per block, one row per core and pipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from profiling.analysis.figures import digits
from profiling.printable import shortened
from profiling.report.plots.drawing import INK, drawing
from profiling.report.view import Plot

#: Columns; with more blocks, neighbours share one, which shows the largest of them.
MOST_COLUMNS = 64
_INCHES_PER_ROW = 0.2


@dataclass(frozen=True, kw_only=True)
class Heat:
    """What a heat map shows.

    Args:
        rows: for each name its value per block.
        blocks: numbers of the blocks, in the order of the columns.
        unit: of all values.
    """

    rows: Mapping[str, Mapping[str, float]]
    blocks: Sequence[str]
    unit: str


def heatmap(heat: Heat, name: str, title: str, caption: str) -> Plot | None:
    """The map; None when there is nothing to compare: one block, or no value above zero."""
    most = max((value for row in heat.rows.values() for value in row.values()), default=0.0)
    if len(heat.blocks) < 2 or most <= 0:
        return None
    columns = _columns(heat.blocks)
    height = 0.75 + _INCHES_PER_ROW * len(heat.rows)
    with drawing(name, height, f"{title}, {len(heat.blocks)} blocks") as canvas:
        from matplotlib.colors import to_rgba
        from matplotlib.patches import Rectangle

        axes = canvas.figure.add_subplot()
        for place, (row, values) in enumerate(heat.rows.items()):
            for column, blocks in enumerate(columns):
                found = [values[block] for block in blocks if block in values]
                if not found:
                    continue
                worst = max(0.0, *found)
                named = blocks[0] if len(blocks) == 1 else f"{blocks[0]} to {blocks[-1]}"
                axes.add_patch(
                    Rectangle(
                        (column - 0.5, place - 0.5),
                        1.0,
                        1.0,
                        facecolor=to_rgba(INK["accent"], 0.06 + 0.94 * worst / most),
                        edgecolor=INK["raised"],
                        linewidth=1.0,
                        gid=canvas.entitle(f"block {named}, {row}: {digits(worst)} {heat.unit}"),
                    )
                )
        axes.set_yticks(range(len(heat.rows)), [shortened(row, 30) for row in heat.rows])
        axes.set_ylim(len(heat.rows) - 0.5, -0.5)
        axes.set_xlim(-0.5, len(columns) - 0.5)
        step = max(1, len(columns) // 16)
        ticks = range(0, len(columns), step)
        axes.set_xticks(ticks, [shortened(columns[tick][0], 8) for tick in ticks])
        axes.set_xlabel("block")
        axes.tick_params(length=0)
        for spine in axes.spines.values():
            spine.set_visible(False)
    shared = len(heat.blocks) > len(columns)
    return Plot(
        title=title,
        svg=canvas.svg,
        caption=f"{caption} The strongest cell is {digits(most)} {heat.unit}.",
        left_out=f"neighbouring blocks share a column, which shows the largest of them: "
        f"{len(heat.blocks):,} blocks in {len(columns)} columns"
        if shared
        else "",
    )


def _columns(blocks: Sequence[str]) -> list[Sequence[str]]:
    width = -(-len(blocks) // MOST_COLUMNS)
    return [blocks[start : start + width] for start in range(0, len(blocks), width)]
