"""Files that are written whole or not at all: nobody finds half of one, and an old one stays."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from kernels_npu.errors import UsageError


def write_whole(path: Path, data: bytes, what: str) -> None:
    """Write `data` under a temporary name beside `path`, then give it its name.

    what: the file is called in the error.

    Raises:
        UsageError: AI-CLI-004 when it cannot be written; what was at `path` is still there.
    """
    half = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        try:
            half.write_bytes(data)
            os.replace(half, path)
        except BaseException:
            with contextlib.suppress(OSError):
                half.unlink()
            raise
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise UsageError(
            "AI-CLI-004",
            f"cannot write the {what} {path}: {reason or error}",
            rule="a file is written beside its place and then moved there",
            fix="name a file in an existing folder that you may write to",
        ) from error
