"""What commands print: one JSON object, or text and tables for people; logs go to stderr."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from kernels_npu.errors import AscendInferError

if TYPE_CHECKING:
    from rich.console import Console


def configure_logging(*, verbose: bool) -> None:
    """Log to standard error: decisions and fallbacks with `verbose`, else warnings only."""
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO if verbose else logging.WARNING,
        format="%(levelname)s %(name)s: %(message)s",
    )


def escape_unprintable() -> None:
    """Let standard output show what its encoding lacks as an escape; files hold any character."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def print_json(value: dict[str, Any]) -> None:
    """The command's one JSON object. Not-a-number and infinities become null."""
    text = json.dumps(_finite(value), indent=2, ensure_ascii=False, allow_nan=False)
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(_finite(value), indent=2, allow_nan=False)
    sys.stdout.write(text + "\n")


def print_error(error: AscendInferError, *, as_json: bool) -> None:
    """The error for people on standard error, or as the one JSON object."""
    if as_json:
        print_json({"error": error.to_dict()})
    else:
        print(f"ascend-infer: {error}", file=sys.stderr)


def print_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], *, note: str = ""
) -> None:
    """A table on standard output; numeric columns are the caller's to format.

    On a terminal it is drawn, or, where its cells would have to be broken, given as one group of
    lines per row; piped, its columns are aligned and its lines as long as they need to be.
    """
    cells = [[str(cell) for cell in row] for row in rows]
    try:
        from rich.console import Console
    except ImportError:  # the doctor has to speak in a broken installation, too
        _print_plainly(title, columns, cells, note)
        return
    console = Console()
    if not console.is_terminal:
        _print_aligned(title, columns, cells, note)
    elif sum(_widths(columns, cells)) + 2 * len(columns) + 1 > console.width:
        _print_grouped(title, columns, cells, note)
    else:
        _draw(console, title, columns, cells, note)


def _draw(
    console: Console, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], note: str
) -> None:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(
        title=title,
        title_justify="left",
        caption=note or None,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
    )
    for column in columns:
        table.add_column(escape(column), no_wrap=True)
    for row in rows:
        table.add_row(*map(escape, row))
    console.print(table)


def _widths(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, cells)) for cells in zip(columns, *rows)]


def _print_aligned(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], note: str
) -> None:
    print(title)
    widths = _widths(columns, rows)
    for row in (columns, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    if note:
        print(note)


def _print_grouped(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], note: str
) -> None:
    print(title)
    width = max(map(len, columns))
    for row in rows:
        for column, cell in zip(columns, row):
            print(f"  {column.ljust(width)}  {cell}")
        print()
    if note:
        print(note)


def _print_plainly(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], note: str
) -> None:
    print(title)
    for row in rows:
        print("; ".join(f"{column}: {cell}" for column, cell in zip(columns, row) if str(cell)))
    if note:
        print(note)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
