"""An append-only file of measurements: one JSON object per line, with its full conditions."""

from __future__ import annotations

import fcntl
import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernels_npu.errors import UsageError
from kernels_npu.evidence import Evidence
from profiling.conditions import Conditions

#: What reading a line raises that holds something else than an entry.
_NO_ENTRY = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One measurement.

    name: what was measured. when: UTC, ISO 8601. figures: name -> value; units are part of the
    name (`median_us`). evidence: how the figures came to be known. line: of the file that it was
    read from, 0 when it was not.
    """

    name: str
    when: str
    figures: Mapping[str, float | int | None]
    evidence: Evidence
    conditions: Conditions
    line: int = field(default=0, compare=False)

    def to_json(self) -> str:
        """One line."""
        fields = {
            "name": self.name,
            "when": self.when,
            "figures": dict(self.figures),
            "evidence": str(self.evidence),
            "conditions": self.conditions.to_dict(),
        }
        return json.dumps(fields, ensure_ascii=False, allow_nan=False)


@dataclass(frozen=True, kw_only=True)
class Malformed:
    """A line that is no entry."""

    line: int
    why: str


def append(path: Path, entry: Entry) -> None:
    """Add `entry` at the end. Several processes may append at a time; no line is torn.

    Raises:
        UsageError: AI-BENCH-006 when the file cannot be written, or a figure is not finite.
    """
    try:
        line = entry.to_json() + "\n"
        with path.open("ab") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            if stream.tell() and not _ends_a_line(path):
                line = "\n" + line
            stream.write(line.encode())
            stream.flush()
            os.fsync(stream.fileno())
    except (OSError, ValueError) as error:
        raise UsageError(
            "AI-BENCH-006",
            f"{entry.name!r} was not written to {path}: {error}",
            rule="a ledger is a file to which lines of finite numbers are appended",
            fix="choose a file in a folder that can be written",
        ) from error


def _ends_a_line(path: Path) -> bool:
    """Whether a writer that died has not left half a line."""
    with path.open("rb") as stream:
        stream.seek(-1, os.SEEK_END)
        return stream.read(1) == b"\n"


def read(path: Path) -> Iterator[Entry | Malformed]:
    """The entries in order; a line that is none does not hide the others.

    Raises:
        UsageError: AI-BENCH-006 when the file cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(
            "AI-BENCH-006",
            f"the ledger cannot be read: {error}",
            rule="a ledger is a file of JSON lines",
            fix="name the file to which measurements were appended",
        ) from error
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            yield _entry(json.loads(line), number)
        except _NO_ENTRY as error:
            yield Malformed(line=number, why=f"{type(error).__name__}: {error}")


def _entry(fields: dict[str, Any], line: int) -> Entry:
    conditions = {k: str(v) for k, v in fields["conditions"].items() if k != "missing"}
    figures = fields["figures"]
    if not all(v is None or math.isfinite(v) for v in figures.values()):
        raise ValueError("a figure is not finite")
    return Entry(
        name=str(fields["name"]),
        when=str(fields["when"]),
        figures=figures,
        evidence=Evidence(fields["evidence"]),
        conditions=Conditions(**conditions),
        line=line,
    )
