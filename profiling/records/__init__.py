"""What profilers' files say, as typed records; every figure has its unit, evidence and place."""

from __future__ import annotations

from profiling.records.kernel import OpInfo, OpProfile
from profiling.records.note import Note, Notes, Severity
from profiling.records.profile import Profile
from profiling.records.quantity import Quantity, Value
from profiling.records.table import Column, Figure, FileKind, Row, Table
from profiling.records.tasks import Labels, Tasks
from profiling.records.trace import Span, Trace

__all__ = [
    "Column",
    "Figure",
    "FileKind",
    "Labels",
    "Note",
    "Notes",
    "OpInfo",
    "OpProfile",
    "Profile",
    "Quantity",
    "Row",
    "Severity",
    "Span",
    "Table",
    "Tasks",
    "Trace",
    "Value",
]
