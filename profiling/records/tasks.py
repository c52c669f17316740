"""Tasks of a whole application, column by column: a trace of a training step has millions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels_npu.errors import SourceLocation
from kernels_npu.evidence import Evidence
from profiling.records.table import Figure, FileKind

#: What stands for a start that the file does not have.
NO_TIME = np.iinfo(np.int64).min


@dataclass(frozen=True, kw_only=True, eq=False)
class Labels:
    """A column of repeating names: `names[codes[row]]`."""

    names: tuple[str, ...]
    codes: NDArray[np.int32]

    def masks(self) -> Mapping[str, NDArray[np.bool_]]:
        """For each name the rows that have it."""
        return {name: self.codes == code for code, name in enumerate(self.names)}


@dataclass(frozen=True, kw_only=True, eq=False)
class Tasks:
    """The tasks of one kernel_details, op_summary or task_time file.

    Args:
        kind: which of them.
        file: as messages show it.
        lines: the file's line of each task.
        start_ns: since the profiler's epoch; NO_TIME where the file has none.
        duration_us: as the file has it; NaN where it has none.
        wait_us: between the end of the task before and its start; NaN where the file has none.
        operator: the operator's type; its name in files that do not know types.
        core: AI_CORE, AI_VECTOR_CORE, MIX_AIC, AI_CPU, HCCL, ...
        step: Step Id; one empty name in files without steps.
        device: Device_id; one empty name in files of one device.
        model: Model ID of the graph that the task is part of, see `profiling.analysis.graphs`.
        name, shapes, dtypes: of the operator's inputs; None unless they were asked for, see
            `profiling.files.read_profile`.
        evidence: of every figure.
    """

    kind: FileKind
    file: str
    lines: NDArray[np.int64]
    start_ns: NDArray[np.int64]
    duration_us: NDArray[np.float64]
    wait_us: NDArray[np.float64]
    operator: Labels
    core: Labels
    step: Labels
    device: Labels
    model: Labels
    evidence: Evidence
    name: Labels | None = None
    shapes: Labels | None = None
    dtypes: Labels | None = None

    def __len__(self) -> int:
        return len(self.lines)

    def select(self, rows: NDArray[Any] | slice) -> Tasks:
        """Only some of the tasks; names stay."""

        def of(labels: Labels) -> Labels:
            return Labels(names=labels.names, codes=labels.codes[rows])

        def if_any(labels: Labels | None) -> Labels | None:
            return None if labels is None else of(labels)

        return Tasks(
            kind=self.kind,
            file=self.file,
            lines=self.lines[rows],
            start_ns=self.start_ns[rows],
            duration_us=self.duration_us[rows],
            wait_us=self.wait_us[rows],
            operator=of(self.operator),
            core=of(self.core),
            step=of(self.step),
            device=of(self.device),
            model=of(self.model),
            evidence=self.evidence,
            name=if_any(self.name),
            shapes=if_any(self.shapes),
            dtypes=if_any(self.dtypes),
        )

    def duration_of(self, row: int) -> Figure:
        """The duration of one task with its place."""
        return Figure(
            key="duration_us",
            value=float(self.duration_us[row]),
            unit="us",
            evidence=self.evidence,
            where=SourceLocation(self.file, int(self.lines[row])),
        )
