"""Requests from a file: CSV with a header, or one JSON object per line."""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ascend_infer.serving_simulation.workload import MOST_REQUESTS, Workload
from kernels_npu.errors import UsageError
from profiling.serving_metrics import Load

#: Field -> whether every request has it.
FIELDS: Mapping[str, bool] = {
    "arrival_s": True,
    "prompt_tokens": True,
    "output_tokens": True,
    "prefix": False,
    "prefix_tokens": False,
}


def read_trace(path: Path) -> Workload:
    """The requests of a file, sorted by `arrival_s` (seconds from any origin).

    Fields: `arrival_s`, `prompt_tokens`, `output_tokens`; and where prompts begin alike, `prefix`
    (any name) and `prefix_tokens`. Further fields are ignored.

    Raises:
        UsageError: AI-SERVE-003 naming the line that cannot be read; AI-CLI-004 for a file that
            cannot be opened.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = [_request(row, path, line) for line, row in _rows(file, path)]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            "AI-CLI-004", f"{path}: {error}", fix="give a CSV or JSON-lines file in UTF-8"
        ) from error
    if not rows:
        raise _unreadable(path, 1, "no request")
    rows.sort(key=lambda row: float(row[0]))
    arrivals = np.array([row[0] for row in rows], dtype=np.float64)
    arrivals -= arrivals[0]
    names = list(dict.fromkeys(row[3] for row in rows if row[3] is not None))
    numbers = {name: number for number, name in enumerate(names)}
    prefixes = [-1 if row[3] is None else numbers[row[3]] for row in rows]
    span = float(arrivals[-1])
    rate = (len(rows) - 1) / span if span > 0 else float("inf")
    return Workload(
        prompt_tokens=np.array([row[1] for row in rows], dtype=np.int64),
        output_tokens=np.array([row[2] for row in rows], dtype=np.int64),
        prefixes=np.array(prefixes, dtype=np.int64),
        prefix_tokens=np.array([row[4] for row in rows], dtype=np.int64),
        arrivals=arrivals,
        load=Load(rate=rate, process=f"trace {path.name}"),
    )


def _rows(file: Iterable[str], path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number and fields of each request."""
    lines = iter(file)
    first = next(lines, "")
    if first.lstrip().startswith("{"):
        for number, line in enumerate((first, *lines), start=1):
            if line.strip():
                yield number, _json(line, path, number)
        return
    yield from _table(itertools.chain([first], lines), path)


def _table(lines: Iterable[str], path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The same of a CSV, whose first line is the header."""
    reader = csv.reader(lines, strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        missing = [name for name, always in FIELDS.items() if always and name not in header]
        if missing:
            raise _unreadable(path, 1, f"a header without {', '.join(missing)}")
        twice = [name for name in FIELDS if header.count(name) > 1]
        if twice:
            raise _unreadable(path, 1, f"{', '.join(twice)} twice in the header")
        for cells in reader:
            if cells and len(cells) != len(header):
                found = f"{len(cells)} cells, the header has {len(header)}"
                raise _unreadable(path, reader.line_num, found)
            if cells:
                yield reader.line_num, dict(zip(header, cells, strict=True))
    except csv.Error as error:
        raise _unreadable(path, max(reader.line_num, 1), f"no CSV ({error})") from error


def _json(line: str, path: Path, number: int) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _unreadable(path, number, f"no JSON ({error})") from error
    if not isinstance(value, dict):
        raise _unreadable(path, number, type(value).__name__)
    return value


def _request(row: dict[str, Any], path: Path, line: int) -> tuple[float, int, int, str | None, int]:
    if line > MOST_REQUESTS + 1:
        raise _unreadable(path, line, f"more than {MOST_REQUESTS:,} requests")
    prefix = row.get("prefix")
    named = prefix is not None and str(prefix).strip() != ""
    shared = _whole(row, "prefix_tokens", path, line) if named else 0
    return (
        _seconds(row, path, line),
        _whole(row, "prompt_tokens", path, line),
        _whole(row, "output_tokens", path, line),
        str(prefix).strip() if named else None,
        shared,
    )


def _seconds(row: dict[str, Any], path: Path, line: int) -> float:
    found = row.get("arrival_s")
    try:
        value = float(found) if not isinstance(found, bool) else float("nan")  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        value = float("nan")
    if not abs(value) < float("inf"):
        raise _unreadable(path, line, f"arrival_s {found!r}")
    return value


def _whole(row: dict[str, Any], name: str, path: Path, line: int) -> int:
    found = row.get(name)
    if isinstance(found, str) and found.strip().isdecimal() and len(found.strip()) < 19:
        return int(found)
    if isinstance(found, int) and not isinstance(found, bool) and 0 <= found < 10**18:
        return found
    raise _unreadable(path, line, f"{name} {str(found)[:40]!r}")


def _unreadable(path: Path, line: int, found: str) -> UsageError:
    return UsageError(
        "AI-SERVE-003",
        f"found {found}",
        where=f"{path.name}:{line}",
        rule="each request has "
        + ", ".join(n for n, always in FIELDS.items() if always)
        + "; prefix and prefix_tokens may be left out; token counts are whole numbers",
        fix="write a CSV with the header arrival_s,prompt_tokens,output_tokens",
    )
