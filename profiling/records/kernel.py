"""One kernel as `msprof op` measured it: its task, and one row per core in every metric file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from profiling.records.table import Figure, FileKind, Row, Table

#: Files with one row per block and core.
METRICS = (
    FileKind.PIPE,
    FileKind.ARITHMETIC,
    FileKind.MEMORY,
    FileKind.MEMORY_L0,
    FileKind.MEMORY_UB,
    FileKind.L2_CACHE,
    FileKind.CONFLICT,
)


@dataclass(frozen=True, kw_only=True)
class OpInfo:
    """OpBasicInfo: the task as a whole. None where the profiler wrote NA or has no such column."""

    name: str
    op_type: str
    task_duration_us: float | None
    block_dim: float | None
    mix_block_dim: float | None
    device_id: str
    current_freq_mhz: float | None
    rated_freq_mhz: float | None

    @property
    def is_mix(self) -> bool:
        """Whether cube and vector cores share the task."""
        return self.op_type.lower() == "mix"


@dataclass(frozen=True, kw_only=True)
class OpProfile:
    """One launch of one kernel.

    Args:
        folder: where its files lie.
        info: None when OpBasicInfo is missing or empty.
        tables: OpBasicInfo and the metric files that there are.
    """

    folder: str
    info: OpInfo | None
    tables: Mapping[FileKind, Table]

    @property
    def name(self) -> str:
        """The kernel's name, or its folder's when OpBasicInfo is missing."""
        return self.info.name if self.info is not None else self.folder

    def rows(self, kind: FileKind) -> tuple[Row, ...]:
        """The rows of a metric file; none when there is no such file."""
        table = self.tables.get(kind)
        return () if table is None else table.rows

    def info_figure(self, key: str) -> Figure | None:
        """A figure of OpBasicInfo, None when it is not there."""
        table = self.tables.get(FileKind.OP_BASIC_INFO)
        if table is None or not table.rows or key not in table.by_key:
            return None
        figure = table.figure(table.rows[0], key)
        return None if figure.value is None else figure

    def figures(self, kind: FileKind, key: str) -> Iterator[tuple[Row, Figure]]:
        """All rows of a metric file that have a number under `key`."""
        table = self.tables.get(kind)
        if table is None or key not in table.by_key:
            return
        for row in table.rows:
            if row.number(key) is not None:
                yield row, table.figure(row, key)


def info_of(table: Table) -> OpInfo | None:
    """The first row of an OpBasicInfo file."""
    if not table.rows:
        return None
    row = table.rows[0]
    return OpInfo(
        name=row.text("op_name"),
        op_type=row.text("op_type"),
        task_duration_us=row.number("task_duration_us"),
        block_dim=row.number("block_dim"),
        mix_block_dim=row.number("mix_block_dim"),
        device_id=row.text("device_id"),
        current_freq_mhz=row.number("current_freq"),
        rated_freq_mhz=row.number("rated_freq"),
    )
