"""Everything that was found below a path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from profiling.manifest import Manifest
from profiling.records.kernel import OpProfile
from profiling.records.note import Note, Severity
from profiling.records.table import FileKind, Table
from profiling.records.tasks import Tasks
from profiling.records.trace import Trace


@dataclass(frozen=True, kw_only=True)
class Profile:
    """What a file, folder or archive holds.

    Args:
        path: what was asked for.
        kernels: launches that `msprof op` measured.
        tasks: kernel_details, op_summary and task_time, one for each file.
        tables: all other tables, and those of the kernels, too.
        traces: Chrome traces.
        notes: what was wrong.
        manifests: where files come from, of those that say so.
    """

    path: str
    kernels: tuple[OpProfile, ...]
    tasks: tuple[Tasks, ...]
    tables: tuple[Table, ...]
    traces: tuple[Trace, ...]
    notes: tuple[Note, ...]
    manifests: tuple[Manifest, ...] = ()

    def of_kind(self, kind: FileKind) -> Iterator[Table]:
        """The tables of one kind."""
        return (table for table in self.tables if table.kind is kind)

    @property
    def damaged(self) -> bool:
        """Whether figures were lost."""
        return any(note.severity is Severity.DAMAGE for note in self.notes)
