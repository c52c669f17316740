"""Runs a command with the runtime's log turned on, so that its captures can be counted."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import BinaryIO

from kernels_npu.errors import UsageError

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
#: Seconds that a command has to end by itself.
_GRACE = 10.0


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

    Its standard output and error are passed on to `out` and `err` and kept beside the log. The
    command and what it started are a process group of their own, which ends with this call; also
    when that raises KeyboardInterrupt, of which the group is told first.
    """
    kept = {name: value for name, value in os.environ.items() if name not in _UNSET}
    environment = {**kept, **LOGGING, "ASCEND_PROCESS_LOG_PATH": str(folder)}
    try:
        child = subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        folder.rmdir()
        raise UsageError(
            "AI-CLI-004", f"{command[0]} cannot be run: {error}", fix="check the command"
        ) from error
    assert child.stdout is not None and child.stderr is not None  # both are pipes
    pumps = [
        threading.Thread(target=_pump, args=(pipe, target, folder / name), daemon=True)
        for pipe, target, name in (
            (child.stdout, out, "output.out"),
            (child.stderr, err, "output.err"),
        )
    ]
    for pump in pumps:
        pump.start()
    try:
        with _ended_with_us(child):
            return child.wait()
    finally:
        for pump in pumps:
            pump.join(_GRACE)  # who left the group may keep a pipe open


def _pump(source: BinaryIO, target: BinaryIO, file: Path) -> None:
    """Pass on what arrives, when it arrives; the command must not notice that nobody reads us."""
    with source, open(file, "wb") as kept:
        while data := os.read(source.fileno(), 1 << 16):
            kept.write(data)
            with contextlib.suppress(OSError, ValueError):
                target.write(data)
                target.flush()


@contextlib.contextmanager
def _ended_with_us(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """End the child's whole group when we are interrupted or told to end, and in every case."""

    def ended(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, ended) if main else None
    try:
        yield
    except BaseException:
        _signal(child, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_GRACE)
        raise
    finally:
        if main:
            signal.signal(signal.SIGTERM, before)
        _signal(child, signal.SIGKILL)
        child.wait()


def _signal(child: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # nobody of the group is left
        os.killpg(child.pid, number)
