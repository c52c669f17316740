"""Runs a command with the runtime's log turned on, so that its captures can be counted."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from kernels_npu.errors import UsageError
from profiling.child_process import Stream, run_to_end

#: INFO notes every replay; the screen must not take the lines; none is lost in a buffer.
LOGGING = {
    "ASCEND_GLOBAL_LOG_LEVEL": "1",
    "ASCEND_HOST_LOG_FILE_NUM": "1000",
    "ASCEND_LOG_SYNC_SAVE": "1",
    "ASCEND_SLOG_PRINT_TO_STDOUT": "0",
    "ASCEND_LOG_PRINT_TO_STDOUT": "0",
}
#: What would override the level for the runtime alone.
_UNSET = ("ASCEND_MODULE_LOG_LEVEL",)


def log_folder(parent: Path | None) -> Path:
    """A new folder below `parent`, so that older logs there are not counted; None: a temporary one.

    Raises UsageError where it cannot be made.
    """
    try:
        if parent is not None:
            parent.mkdir(parents=True, exist_ok=True)
        prefix = "ascend-log-" if parent is None else "run-"
        return Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    except OSError as error:
        where = parent or tempfile.gettempdir()
        raise UsageError(
            "AI-CLI-004", f"no logs can be kept in {where}: {error}", fix="name another --log-dir"
        ) from error


def run_logged(command: Sequence[str], folder: Path, *, out: BinaryIO, err: BinaryIO) -> int:
    """Run a command with its log in `folder`; returns its exit status.

    Its standard output and error are passed on to `out` and `err` and kept beside the log. Nothing
    that it started outlives this call.
    """
    kept = {name: value for name, value in os.environ.items() if name not in _UNSET}
    environment = {**kept, **LOGGING, "ASCEND_PROCESS_LOG_PATH": str(folder)}
    try:
        ended = run_to_end(
            command,
            environment,
            out=Stream(onward=out, kept=folder / "output.out"),
            err=Stream(onward=err, kept=folder / "output.err"),
        )
    except OSError as error:
        with contextlib.suppress(OSError):
            folder.rmdir()
        raise UsageError(
            "AI-CLI-004", f"{command[0]} cannot be run: {error}", fix="check the command"
        ) from error
    return ended.status
