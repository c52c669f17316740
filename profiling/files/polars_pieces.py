"""A piece of a large kernel table, read with polars; only this module imports it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from profiling.files.cells import MISSING, parse
from profiling.files.rows import split_line
from profiling.files.tasks import TIMES, LabelKeys, Piece
from profiling.records.quantity import Quantity
from profiling.records.table import Column
from profiling.records.tasks import NO_TIME

#: Start times have three decimals.
_NANOSECONDS = pl.Decimal(38, 3)


def read_piece(body: bytes, columns: Sequence[Column], labels: LabelKeys) -> Piece | None:
    """The tasks in `body`, whose first line is line 0; None when anything in it is unusual.

    Unusual is whatever polars would repair or leave out in silence: lines that are short, long,
    empty or of open quotes, and cells that are neither a number nor missing.
    """
    line = body[: body.find(b"\n")].decode("utf-8", errors="replace").rstrip("\r")
    if len(split_line(line) or ()) != len(columns):
        return None
    keys = {*TIMES, *(key for keys in labels.values() for key in keys)}
    wanted = {c.key: place for place, c in enumerate(columns) if c.key in keys}
    last = len(columns) - 1
    # A first line with one cell more: polars takes the width from it, and where a longer line has
    # that cell it shows, which polars would leave out without a word.
    widest = b"x" + b",x" * len(columns) + b"\n"
    places = sorted({*wanted.values(), last, last + 1})
    try:
        frame = pl.read_csv(widest + body, has_header=False, infer_schema=False, columns=places)
    except (pl.exceptions.PolarsError, ValueError):
        return None
    frame = frame[1:].rename(dict(zip(frame.columns, map(str, places), strict=True)))
    if frame.height != body.count(b"\n") + (not body.endswith(b"\n")):
        return None
    if frame[str(last + 1)].null_count() < frame.height:
        return None
    if frame[str(last)].null_count() and not _are_whole(body, frame[str(last)], len(columns)):
        return None
    texts = {key: frame[str(place)] for key, place in wanted.items()}
    starts = _times(texts.get("start_us"), frame.height)
    durations = _numbers(texts.get("duration_us"), frame.height)
    waits = _numbers(texts.get("wait_us"), frame.height)
    if starts is None or durations is None or waits is None:
        return None
    return Piece(
        lines=np.arange(frame.height, dtype=np.int64),
        start_ns=starts,
        duration_us=durations,
        wait_us=waits,
        labels={
            label: _encoded(
                [(texts[k], columns[wanted[k]].quantity) for k in keys if k in texts], frame.height
            )
            for label, keys in labels.items()
        },
    )


def _are_whole(body: bytes, last: pl.Series, width: int) -> bool:
    """Whether the lines without a last cell have one that is empty, and not too few cells."""
    lines = body.decode("utf-8").split("\n")
    return all(
        len(split_line(lines[place].rstrip("\r")) or ()) == width
        for place in last.is_null().arg_true()
    )


def _times(text: pl.Series | None, height: int) -> NDArray[np.int64] | None:
    if text is None:
        return np.full(height, NO_TIME, dtype=np.int64)
    text = text.str.strip_chars()
    times = text.cast(_NANOSECONDS, strict=False).to_physical().cast(pl.Int64, strict=False)
    if not _only_missing(text, times):
        return None
    return np.asarray(times.fill_null(int(NO_TIME)).to_numpy(), dtype=np.int64)


def _numbers(text: pl.Series | None, height: int) -> NDArray[np.float64] | None:
    if text is None:
        return np.full(height, np.nan)
    text = text.str.strip_chars()
    numbers = text.cast(pl.Float64, strict=False)
    if not _only_missing(text, numbers) or not numbers.drop_nulls().is_finite().all():
        return None
    return np.asarray(numbers.fill_null(float("nan")).to_numpy(), dtype=np.float64)


def _only_missing(text: pl.Series, values: pl.Series) -> bool:
    """Whether every text without a value says that there is none."""
    without = text.filter(values.is_null()).drop_nulls().unique()
    return all(cell.lower() in MISSING for cell in without)


def _encoded(
    texts: Sequence[tuple[pl.Series, Quantity]], height: int
) -> tuple[list[str], NDArray[np.int64]]:
    """The first text that each row has, as names and codes."""
    names, codes = [""], np.zeros(height, dtype=np.int64)
    for text, quantity in texts:
        without = codes == 0
        if not without.any():
            break
        found = text.filter(pl.Series(without)).fill_null("")
        unique = found.unique(maintain_order=True)
        places = found.cast(pl.Enum(unique)).to_physical().cast(pl.Int64).to_numpy()
        told = [str(parse(name, quantity) or "") for name in unique]
        known = np.array([bool(name) for name in told], dtype=bool)
        codes[without] = np.where(known[places], places + len(names), 0)
        names += told
    return names, codes
