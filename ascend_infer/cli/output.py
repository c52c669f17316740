"""What commands print: one JSON object, or text and tables for people; logs go to stderr."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from kernels_npu.errors import AscendInferError


def configure_logging(*, verbose: bool) -> None:
    """Log to standard error: decisions and fallbacks with `verbose`, else warnings only."""
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO if verbose else logging.WARNING,
        format="%(levelname)s %(name)s: %(message)s",
    )


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
    """A table on standard output; numeric columns are the caller's to format."""
    try:
        from rich import box
    except ImportError:  # the doctor has to speak in a broken installation, too
        _print_plainly(title, columns, rows, note)
        return
    from rich.console import Console
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
        table.add_column(escape(column), overflow="fold")
    for row in rows:
        table.add_row(*(escape(str(cell)) for cell in row))
    Console().print(table)


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
