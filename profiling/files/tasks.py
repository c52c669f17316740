"""Kernel tables of whole applications as columns, in pieces, so that size costs time, not memory.

Small files are read with the standard library, large ones with polars. Both give the same columns:
a piece of which polars would lose or repair anything is read again line by line, with notes.
"""

from __future__ import annotations

import itertools
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernels_npu.errors import EnvironmentProblem
from profiling.files.rows import RowReader
from profiling.files.sources import Source
from profiling.files.tables import header_of
from profiling.files.text import decode, encoding_of
from profiling.records.note import Notes
from profiling.records.table import Column, FileKind, Row, Table
from profiling.records.tasks import NO_TIME, Labels, Tasks

TASK_KINDS = frozenset({FileKind.KERNEL_DETAILS, FileKind.OP_SUMMARY, FileKind.TASK_TIME})
#: Files larger than this are read with polars, in pieces of that size.
LARGE = 8 << 20
#: Pieces that are read at once: polars leaves the interpreter free meanwhile.
_AT_A_TIME = 2

#: Columns that become names; of those in one tuple, the first that a row has.
LABELS = {
    "operator": ("op_type", "op_name"),
    "core": ("core",),
    "step": ("step_id",),
    "device": ("device_id",),
    "model": ("model_id",),
}
#: Further ones, which tell the kernels of an operator apart; a comparison asks for them.
NAMED = {
    **LABELS,
    "name": ("op_name", "op_type"),
    "shapes": ("input_shapes",),
    "dtypes": ("input_data_types",),
}
#: For each label the keys that it is taken from.
LabelKeys: TypeAlias = Mapping[str, tuple[str, ...]]
TIMES = ("start_us", "duration_us", "wait_us")


@dataclass(kw_only=True)
class Piece:
    """Consecutive tasks: the columns of `Tasks`, names not yet encoded."""

    lines: NDArray[np.int64]
    start_ns: NDArray[np.int64]
    duration_us: NDArray[np.float64]
    wait_us: NDArray[np.float64]
    labels: dict[str, tuple[list[str], NDArray[np.int64]]]


@dataclass(kw_only=True)
class _Encoder:
    """Gives each name one code over all pieces."""

    names: dict[str, int] = field(default_factory=dict)
    codes: list[NDArray[np.int32]] = field(default_factory=list)

    def add(self, names: list[str], codes: NDArray[np.int64]) -> None:
        used = np.unique(codes)
        ours = np.zeros(len(names), dtype=np.int32)
        ours[used] = [self.names.setdefault(names[code], len(self.names)) for code in used]
        self.codes.append(ours[codes])

    def labels(self) -> Labels:
        return Labels(names=tuple(self.names), codes=_joined(self.codes, np.int32))


def tasks_of(table: Table, labels: LabelKeys = LABELS) -> Tasks:
    """The tasks of a table that is already read."""
    return _assembled(table.kind, table.file, table.columns, [piece_of(table.rows, labels)])


def read_tasks(source: Source, notes: Notes, labels: LabelKeys = LABELS) -> Tasks | None:
    """The tasks of a large file; None when it is not one of tasks.

    Raises:
        EnvironmentProblem: AI-PROF-032, polars is missing.
        OSError, zipfile.BadZipFile: the bytes cannot be read.
    """
    pieces = _pieces(source)
    first = next(pieces, b"")
    if encoding_of(first) == "utf-16":
        return None
    quiet = Notes()
    lines = first[: first.find(b"\n") + 1].decode("utf-8-sig", errors="replace").splitlines()
    head = header_of(lines, source, quiet)
    if head is None or head[1].kind not in TASK_KINDS:
        return None
    _, format, columns = head
    header_of(lines, source, notes)
    read = _polars_reader()
    reader = RowReader(file=source.name, columns=columns, notes=notes)
    number, parts = 2, []
    bodies = filter(None, itertools.chain([first[first.find(b"\n") + 1 :]], pieces))
    for body, piece in _read_ahead(bodies, lambda body: read(body, columns, labels)):
        if piece is not None:
            piece = replace(piece, lines=piece.lines + number)
            number += len(piece.lines)
        else:
            text = decode(body, source.name, notes, encoding="utf-8").split("\n")
            piece = piece_of(tuple(reader.rows(text, first=number)), labels)
            number += body.count(b"\n")
        parts.append(piece)
    return _assembled(format.kind, source.name, columns, parts)


def _read_ahead(
    bodies: Iterator[bytes], read: Callable[[bytes], Piece | None]
) -> Iterator[tuple[bytes, Piece | None]]:
    """Each body with what was read of it, in order; two are read at a time."""
    waiting: deque[tuple[bytes, Future[Piece | None]]] = deque()
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        for body in bodies:
            waiting.append((body, pool.submit(read, body)))
            if len(waiting) > _AT_A_TIME:
                body, found = waiting.popleft()
                yield body, found.result()
        for body, found in waiting:
            yield body, found.result()


def piece_of(rows: Sequence[Row], labels: LabelKeys) -> Piece:
    """The columns of rows that were read line by line."""
    starts = (row.get("start_us") for row in rows)
    return Piece(
        lines=np.array([row.line for row in rows], dtype=np.int64),
        start_ns=np.array(
            [round(s * 1000) if isinstance(s, Decimal) else NO_TIME for s in starts],
            dtype=np.int64,
        ),
        duration_us=_floats(rows, "duration_us"),
        wait_us=_floats(rows, "wait_us"),
        labels={label: _named(rows, keys) for label, keys in labels.items()},
    )


def _floats(rows: Sequence[Row], key: str) -> NDArray[np.float64]:
    numbers = (row.number(key) for row in rows)
    return np.array([np.nan if n is None else n for n in numbers], dtype=np.float64)


def _named(rows: Sequence[Row], keys: Sequence[str]) -> tuple[list[str], NDArray[np.int64]]:
    codes: dict[str, int] = {}
    found = [
        codes.setdefault(next((row.text(k) for k in keys if row.text(k)), ""), len(codes))
        for row in rows
    ]
    return list(codes), np.array(found, dtype=np.int64)


def _pieces(source: Source) -> Iterator[bytes]:
    """The file in pieces that end with a line."""
    with source.open() as stream:
        while block := stream.read(LARGE):
            yield block if block.endswith(b"\n") else block + stream.readline()


def _assembled(
    kind: FileKind, file: str, columns: tuple[Column, ...], pieces: Sequence[Piece]
) -> Tasks:
    encoders: dict[str, _Encoder] = defaultdict(_Encoder)
    for piece in pieces:
        for label, (names, codes) in piece.labels.items():
            encoders[label].add(names, codes)
    labels = {label: encoder.labels() for label, encoder in encoders.items()}
    return Tasks(
        kind=kind,
        file=file,
        lines=_joined([piece.lines for piece in pieces], np.int64),
        start_ns=_joined([piece.start_ns for piece in pieces], np.int64),
        duration_us=_joined([piece.duration_us for piece in pieces], np.float64),
        wait_us=_joined([piece.wait_us for piece in pieces], np.float64),
        evidence=columns[0].evidence,
        **labels,
    )


def _joined(parts: Sequence[NDArray[Any]], dtype: type[np.generic]) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.empty(0, dtype=dtype)


class _PieceReader(Protocol):
    def __call__(
        self, body: bytes, columns: Sequence[Column], labels: LabelKeys, /
    ) -> Piece | None: ...


def _polars_reader() -> _PieceReader:
    try:
        from profiling.files.polars_pieces import read_piece
    except ImportError as error:
        raise EnvironmentProblem(
            "AI-PROF-032",
            f"the file is larger than {LARGE >> 20} MiB and polars is not installed",
            rule="large kernel tables are read with polars, which the extra `profile` brings",
            fix="pip install polars",
        ) from error
    return read_piece
