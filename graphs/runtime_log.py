"""Replays as CANN's runtime notes them in its host log: a device's own word that a graph ran.

The runtime writes one line per executed graph, at level INFO, into
`<log folder>/debug/plog/plog-<pid>_<time>.log`. Lines arrive late unless every one is written at
once, so the count is only used where the environment says that they are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

#: The runtime's lines about graphs. The level differs between its versions, the text does not.
EXECUTED = re.compile(rb"capture model execute, model_id=(\d+)!")
CAPTURE_BEGUN = re.compile(rb"capture begin success, device_id=\d+, model_id=(\d+)")
CAPTURE_ENDED = re.compile(rb"capture end success, [^\n]*?capture model_id=(\d+)")
CAPTURE_STREAM = re.compile(rb"device_id=(\d+)[^\n]*?capture stream_id=(\d+)")
_INFO = "1"


def log_folder(environment: Mapping[str, str]) -> Path:
    """Where the runtime writes, in the order in which it looks."""
    direct = environment.get("ASCEND_PROCESS_LOG_PATH")
    if direct:
        return Path(direct)
    work = environment.get("ASCEND_WORK_PATH")
    return Path(work, "log") if work else Path.home() / "ascend" / "log"


def counts_replays(environment: Mapping[str, str]) -> bool:
    """Whether each replay is in the log by the time its result is read.

    That takes ASCEND_GLOBAL_LOG_LEVEL=1 (or 0), nothing that sends the log to the screen, and
    ASCEND_LOG_SYNC_SAVE=1. ASCEND_MODULE_LOG_LEVEL overrides the level for the runtime.
    """
    level = environment.get("ASCEND_GLOBAL_LOG_LEVEL", "3")
    for entry in environment.get("ASCEND_MODULE_LOG_LEVEL", "").split(":"):
        module, _, own = entry.partition("=")
        if module == "RUNTIME":
            level = own
    on_screen = any(
        environment.get(name) == "1"
        for name in ("ASCEND_SLOG_PRINT_TO_STDOUT", "ASCEND_LOG_PRINT_TO_STDOUT")
    )
    return level <= _INFO and environment.get("ASCEND_LOG_SYNC_SAVE") == "1" and not on_screen


def replays_in_log(pid: int, environment: Mapping[str, str] = os.environ) -> int | None:
    """Graph executions that the runtime logged for a process; None where it does not log them."""
    if not counts_replays(environment):
        return None
    files = (log_folder(environment) / "debug" / "plog").glob(f"plog-{pid}_*.log")
    return sum(len(EXECUTED.findall(file.read_bytes())) for file in files)
