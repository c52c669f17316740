"""A profiler's file as rows under named columns; every figure knows its file, line and evidence."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from kernels_npu.errors import SourceLocation
from kernels_npu.evidence import Evidence
from profiling.records.quantity import Quantity, Value


class FileKind(str, enum.Enum):
    """The profilers' files, by the name that they give them."""

    OP_BASIC_INFO = "OpBasicInfo"
    ARITHMETIC = "ArithmeticUtilization"
    L2_CACHE = "L2Cache"
    MEMORY = "Memory"
    MEMORY_L0 = "MemoryL0"
    MEMORY_UB = "MemoryUB"
    PIPE = "PipeUtilization"
    CONFLICT = "ResourceConflictRatio"
    INSTRUCTIONS = "instr_exe"
    CODE = "code_exe"
    OP_SUMMARY = "op_summary"
    KERNEL_DETAILS = "kernel_details"
    OP_STATISTIC = "op_statistic"
    API_STATISTIC = "api_statistic"
    TASK_TIME = "task_time"
    STEP_TRACE = "step_trace_time"
    OPERATOR_DETAILS = "operator_details"
    OPERATOR_MEMORY = "operator_memory"
    MEMORY_RECORD = "memory_record"
    MODULE_MEMORY = "npu_module_mem"
    STATIC_MEMORY = "static_op_mem"
    L2_OF_TASKS = "l2_cache"
    UNKNOWN = "unknown"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of a file.

    Args:
        name: as the file spells it.
        key: the same for all spellings; how rows are indexed.
        quantity: what it measures.
        unit: empty for text and plain counts.
        known: whether it is in the table of known columns; others are kept as they are.
        source: where its meaning is known from; empty for unknown columns.
        evidence: of its figures.
    """

    name: str
    key: str
    quantity: Quantity
    unit: str
    known: bool
    source: str
    evidence: Evidence


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One value with everything that a reader needs to check it."""

    key: str
    value: Value
    unit: str
    evidence: Evidence
    where: SourceLocation

    @property
    def number(self) -> float | None:
        """The value as a float; None when it is missing, or is text."""
        return None if self.value is None or isinstance(self.value, str) else float(self.value)

    def to_dict(self) -> dict[str, str | int | float | None]:
        """The figure as JSON-ready fields."""
        value = self.value
        return {
            "column": self.key,
            "value": value if value is None or isinstance(value, (int, float)) else str(value),
            "unit": self.unit,
            "evidence": str(self.evidence),
            "where": str(self.where),
        }


@dataclass(frozen=True, eq=False)
class Row(Mapping[str, Value]):
    """A row, indexed by `Column.key`; `line` is its line in the file."""

    line: int
    cells: tuple[Value, ...]
    index: Mapping[str, int] = field(repr=False)

    def __getitem__(self, key: str) -> Value:
        return self.cells[self.index[key]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.index)

    def __len__(self) -> int:
        return len(self.index)

    def number(self, key: str) -> float | None:
        """The value as a float; None when the column or the value is missing, or is text."""
        value = self.get(key)
        return None if value is None or isinstance(value, str) else float(value)

    def text(self, key: str) -> str:
        """The value as it reads; empty when missing."""
        value = self.get(key)
        return "" if value is None else str(value)


@dataclass(frozen=True, kw_only=True)
class Table:
    """One file: its kind, columns and rows."""

    kind: FileKind
    file: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    @cached_property
    def by_key(self) -> Mapping[str, Column]:
        """The columns under their keys."""
        return {column.key: column for column in self.columns}

    def figure(self, row: Row, key: str) -> Figure:
        """The value of `row` under `key`, with unit, evidence and place."""
        column = self.by_key[key]
        return Figure(
            key=key,
            value=row[key],
            unit=column.unit,
            evidence=column.evidence,
            where=SourceLocation(self.file, row.line),
        )
