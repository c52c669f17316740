"""A piece of a large kernel table, read with polars; only this module imports it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from profiling.files.cells import MISSING
from profiling.files.rows import split_line
from profiling.files.tasks import KEYS, Piece, labels_of
from profiling.records.table import Column
from profiling.records.tasks import NO_TIME

#: Start times have three decimals.
_NANOSECONDS = pl.Decimal(38, 3)


def read_piece(body: bytes, columns: Sequence[Column], first: int) -> Piece | None:
    """The tasks in `body`, whose first line is line `first`; None when anything in it is unusual.

    Unusual is whatever polars would repair or leave out in silence: lines that are short, long,
    empty or of open quotes, and cells that are neither a number nor missing.
    """
    line = body[: body.find(b"\n")].decode("utf-8", errors="replace").rstrip("\r")
    if len(split_line(line) or ()) != len(columns):
        return None
    wanted = {c.key: place for place, c in enumerate(columns) if c.key in KEYS}
    last = len(columns) - 1
    # A cell after the last column is how a long line shows: polars leaves out what it is not asked.
    schema = {str(place): pl.String for place in range(len(columns) + 1)}
    places = sorted({*wanted.values(), last, last + 1})
    try:
        frame = pl.read_csv(body, has_header=False, schema=schema, columns=places)
    except (pl.exceptions.PolarsError, ValueError):
        return None
    if frame.height != body.count(b"\n") + (not body.endswith(b"\n")):
        return None
    if frame[str(last)].null_count() or frame[str(last + 1)].null_count() < frame.height:
        return None
    texts = {key: _without_missing(frame[str(place)]) for key, place in wanted.items()}
    starts = _times(texts.get("start_us"), frame.height)
    durations = _numbers(texts.get("duration_us"), frame.height)
    waits = _numbers(texts.get("wait_us"), frame.height)
    if starts is None or durations is None or waits is None:
        return None
    return Piece(
        lines=np.arange(first, first + frame.height, dtype=np.int64),
        start_ns=starts,
        duration_us=durations,
        wait_us=waits,
        labels={
            label: _encoded([texts[key] for key in keys], frame.height)
            for label, keys in labels_of(tuple(texts)).items()
        },
    )


def _without_missing(column: pl.Series) -> pl.Series:
    text = column.str.strip_chars()
    return text.set(text.str.to_lowercase().is_in(list(MISSING)), None)


def _times(text: pl.Series | None, height: int) -> NDArray[np.int64] | None:
    if text is None:
        return np.full(height, NO_TIME, dtype=np.int64)
    times = text.cast(_NANOSECONDS, strict=False).to_physical().cast(pl.Int64, strict=False)
    if times.null_count() != text.null_count():
        return None
    return np.asarray(times.fill_null(int(NO_TIME)).to_numpy(), dtype=np.int64)


def _numbers(text: pl.Series | None, height: int) -> NDArray[np.float64] | None:
    if text is None:
        return np.full(height, np.nan)
    numbers = text.cast(pl.Float64, strict=False)
    if numbers.null_count() != text.null_count() or not numbers.drop_nulls().is_finite().all():
        return None
    return np.asarray(numbers.fill_null(float("nan")).to_numpy(), dtype=np.float64)


def _encoded(texts: Sequence[pl.Series], height: int) -> tuple[list[str], NDArray[np.int64]]:
    """The first text that each row has, as names and codes."""
    if not texts:
        return [""], np.zeros(height, dtype=np.int64)
    text = texts[0]
    for other in texts[1:]:
        text = text.zip_with(text.is_not_null(), other)
    text = text.fill_null("")
    names = text.unique(maintain_order=True)
    codes = text.cast(pl.Enum(names)).to_physical()
    return names.to_list(), codes.cast(pl.Int64).to_numpy()
