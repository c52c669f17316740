"""Runs a command with the runtime's log turned on, so that its captures can be counted."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from kernels_npu.errors import UsageError

#: INFO notes every replay; the screen must not take the lines; none is lost in a buffer.
LOGGING = {
    "ASCEND_GLOBAL_LOG_LEVEL": "1",
    "ASCEND_HOST_LOG_FILE_NUM": "1000",
    "ASCEND_LOG_SYNC_SAVE": "1",
    "ASCEND_SLOG_PRINT_TO_STDOUT": "0",
    "ASCEND_LOG_PRINT_TO_STDOUT": "0",
}


def run_logged(command: Sequence[str], folder: Path) -> int:
    """Run a command with its log in `folder`; returns its exit status.

    Its standard error is passed on and kept beside the log; so is its standard output, on
    standard error, which leaves ours to the report.
    """
    environment = {**os.environ, **LOGGING, "ASCEND_PROCESS_LOG_PATH": str(folder)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "output.err", "wb") as kept:
            child = subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
            for line in child.stdout or ():
                kept.write(line)
                sys.stderr.write(line.decode("utf-8", errors="replace"))
            return child.wait()
    except OSError as error:
        raise UsageError(
            "AI-CLI-004",
            f"{command[0]} cannot be run with its log in {folder}: {error}",
            fix="check the command, and that the folder is writable",
        ) from error
