"""How long the pipes of each core of a kernel were active."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from profiling.records.kernel import OpProfile
from profiling.records.table import Figure, FileKind, Row, Table

#: The two kinds of cores; on chips with one kind all columns are the first one's.
CORES = ("aic", "aiv")
PIPES = ("cube", "vec", "scalar", "mte1", "mte2", "mte3", "fixpipe")
#: Pipes that move data, and pipes that compute, as the vendor's tool divides them.
MEMORY_PIPES = frozenset({"mte1", "mte2", "mte3", "fixpipe"})
COMPUTE_PIPES = frozenset({"cube", "vec"})


@dataclass(frozen=True, kw_only=True)
class CoreTime:
    """One core of one block.

    Args:
        block: its number; empty on chips without block rows.
        core: `cube0`, `vector0`, `vector1`; `aicore` on chips without block rows.
        side: `aic` or `aiv`, whose columns are the core's.
        time: how long it ran.
        pipes: how long each pipe was active, in microseconds.
        ratios: what the file says as `*_ratio`. Of a mix kernel this is a share of the task.
    """

    block: str
    core: str
    side: str
    time: Figure
    pipes: dict[str, Figure]
    ratios: dict[str, Figure]

    @property
    def time_us(self) -> float:
        """How long it ran."""
        return _number(self.time)

    def share(self, pipe: str) -> float:
        """The pipe's part of the core's own time, which a mix kernel's ratio is not."""
        return _number(self.pipes[pipe]) / self.time_us if self.time_us else 0.0


@dataclass(frozen=True, kw_only=True)
class PipeUse:
    """One pipe over all cores of one side.

    Args:
        side: `aic` or `aiv`.
        pipe: which.
        total_us: active time, over all cores.
        share: of the cores' own time.
        busiest: the core with the longest active time.
    """

    side: str
    pipe: str
    total_us: float
    share: float
    busiest: Figure


def core_times(kernel: OpProfile) -> list[CoreTime]:
    """Every core that PipeUtilization has a time of, in the order of the file."""
    table = kernel.tables.get(FileKind.PIPE)
    if table is None:
        return []
    return [core for row in table.rows for core in _cores(table, row)]


def pipe_use(cores: list[CoreTime]) -> list[PipeUse]:
    """The pipes that were active at all, the busiest first."""
    used = []
    for side in CORES:
        ours = [core for core in cores if core.side == side]
        whole = sum(core.time_us for core in ours)
        for pipe in PIPES:
            figures = [core.pipes[pipe] for core in ours if pipe in core.pipes]
            total = sum(map(_number, figures))
            if total > 0:
                used.append(
                    PipeUse(
                        side=side,
                        pipe=pipe,
                        total_us=total,
                        share=total / whole if whole else 0.0,
                        busiest=max(figures, key=_number),
                    )
                )
    return sorted(used, key=lambda use: -use.share)


def _cores(table: Table, row: Row) -> Iterator[CoreTime]:
    for side in CORES:
        if row.number(f"{side}_time_us") is None:
            continue
        yield CoreTime(
            block=row.text("block_id"),
            core=row.text("sub_block_id") or "aicore",
            side=side,
            time=table.figure(row, f"{side}_time_us"),
            pipes=_figures(table, row, side, "time_us"),
            ratios=_figures(table, row, side, "ratio"),
        )


def _figures(table: Table, row: Row, side: str, what: str) -> dict[str, Figure]:
    keys = {pipe: f"{side}_{pipe}_{what}" for pipe in PIPES}
    return {
        pipe: table.figure(row, key) for pipe, key in keys.items() if row.number(key) is not None
    }


def _number(figure: Figure) -> float:
    value = figure.value
    return float(value) if isinstance(value, (int, float)) else 0.0
