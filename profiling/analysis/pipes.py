"""How long the pipes of each core of a kernel were active: in time, or in modelled cycles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from profiling.analysis.figures import number
from profiling.records.kernel import OpProfile
from profiling.records.table import Figure, FileKind, Row, Table

#: The two kinds of cores; on chips with one kind all columns are the first one's.
CORES = ("aic", "aiv")
#: The core of chips with one kind, whose files have no blocks.
AI_CORE = "aicore"
PIPES = ("cube", "vec", "scalar", "mte1", "mte2", "mte3", "fixpipe")
#: Pipes that move data, and pipes that compute, as the vendor's tool divides them.
MEMORY_PIPES = frozenset({"mte1", "mte2", "mte3", "fixpipe"})
COMPUTE_PIPES = frozenset({"cube", "vec"})
#: The vendor tool's limit: a pipe that is active longer decides.
BUSY_PIPE = 0.80
#: Columns of a core's and of a pipe's length; simulated launches have no time.
_LENGTHS = (("time_us", "time_us"), ("total_cycles", "cycles"))


def cores_called(side: str, core: str) -> str:
    """What cores of a side are called; core: one of them, as `CoreTime` or the file names it."""
    if core in ("", AI_CORE):
        return "AI cores"
    return {"aic": "cube cores", "aiv": "vector cores"}[side]


@dataclass(frozen=True, kw_only=True)
class CoreTime:
    """One core of one block.

    Args:
        block: its number; empty on chips without block rows.
        core: `cube0`, `vector0`, `vector1`; `aicore` on chips without block rows.
        side: `aic` or `aiv`, whose columns are the core's.
        time: how long it ran, in microseconds or in modelled cycles.
        pipes: how long each pipe was active, in the same unit.
        ratios: what the file says as `*_ratio`. Of a mix kernel this is a share of the task.
    """

    block: str
    core: str
    side: str
    time: Figure
    pipes: dict[str, Figure]
    ratios: dict[str, Figure]

    @property
    def length(self) -> float:
        """How long it ran, in `unit`."""
        return number(self.time)

    @property
    def unit(self) -> str:
        """`us`, or `cycles` of a model."""
        return self.time.unit

    def share(self, pipe: str) -> float:
        """The pipe's part of the core's own time, which a mix kernel's ratio is not."""
        return number(self.pipes[pipe]) / self.length if self.length else 0.0


@dataclass(frozen=True, kw_only=True)
class PipeUse:
    """One pipe over all cores of one side.

    Args:
        side: `aic` or `aiv`.
        pipe: which.
        total: active time or modelled cycles, over all cores.
        unit: of the total.
        share: of the cores' own time.
        busiest: the core with the longest active time.
    """

    side: str
    pipe: str
    total: float
    unit: str
    share: float
    busiest: Figure


def core_times(kernel: OpProfile) -> list[CoreTime]:
    """Every core that PipeUtilization has a time or cycles of, in the order of the file."""
    table = kernel.tables.get(FileKind.PIPE)
    if table is None:
        return []
    return [core for row in table.rows for core in _cores(table, row)]


def pipe_use(cores: list[CoreTime]) -> list[PipeUse]:
    """The pipes that were active at all, the busiest first."""
    used = []
    for side in CORES:
        ours = [core for core in cores if core.side == side]
        whole = sum(core.length for core in ours)
        for pipe in PIPES:
            figures = [core.pipes[pipe] for core in ours if pipe in core.pipes]
            total = sum(map(number, figures))
            if total > 0:
                used.append(
                    PipeUse(
                        side=side,
                        pipe=pipe,
                        total=total,
                        unit=ours[0].unit,
                        share=total / whole if whole else 0.0,
                        busiest=max(figures, key=number),
                    )
                )
    return sorted(used, key=lambda use: -use.share)


def _cores(table: Table, row: Row) -> Iterator[CoreTime]:
    for side in CORES:
        for of_core, of_pipe in _LENGTHS:
            if row.number(f"{side}_{of_core}") is not None:
                yield CoreTime(
                    block=row.text("block_id"),
                    core=row.text("sub_block_id") or AI_CORE,
                    side=side,
                    time=table.figure(row, f"{side}_{of_core}"),
                    pipes=_figures(table, row, side, of_pipe),
                    ratios=_figures(table, row, side, "ratio"),
                )
                break


def _figures(table: Table, row: Row, side: str, what: str) -> dict[str, Figure]:
    keys = {pipe: f"{side}_{pipe}_{what}" for pipe in PIPES}
    return {
        pipe: table.figure(row, key) for pipe, key in keys.items() if row.number(key) is not None
    }
