"""Runs a command to its end: output passed on and kept, a time limit, and nothing outlives it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import BinaryIO

#: How a command is told to end, and the seconds that it then has. An interrupt comes first: it is
#: what programs clean up after.
_ENDING = ((signal.SIGINT, 10.0), (signal.SIGTERM, 2.0))


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a command ended: its exit status, negative for a signal, and whether time was up."""

    status: int
    timed_out: bool


@dataclass(frozen=True, kw_only=True)
class Stream:
    """Where one of the command's outputs goes: on, and into a file."""

    onward: BinaryIO
    kept: Path


def run_to_end(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    out: Stream,
    err: Stream,
    limit_s: float | None = None,
) -> Ended:
    """Run a command for `limit_s` seconds at most.

    The command and what it started are a process group of their own, which ends with this call;
    also when that raises KeyboardInterrupt or SystemExit (for SIGTERM), of which the group is told.

    Raises:
        OSError: it cannot be started, or a file of `out` or `err` not be written.
    """
    child = subprocess.Popen(
        command,
        env=dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert child.stdout is not None and child.stderr is not None  # both are pipes
    pumps: list[threading.Thread] = []
    try:
        with _ended_with_us(child):
            for pipe, stream in ((child.stdout, out), (child.stderr, err)):
                arguments = (pipe, stream.onward, open(stream.kept, "wb"))  # noqa: SIM115
                pumps.append(threading.Thread(target=_pump, args=arguments, daemon=True))
                pumps[-1].start()
            return _wait(child, limit_s)
    finally:
        for pump in pumps:
            pump.join(_ENDING[0][1])  # who left the group may keep a pipe open


def _wait(child: subprocess.Popen[bytes], limit_s: float | None) -> Ended:
    try:
        return Ended(status=child.wait(limit_s), timed_out=False)
    except subprocess.TimeoutExpired:
        _end(child)
        return Ended(status=child.wait(), timed_out=True)


def _pump(source: BinaryIO, target: BinaryIO, kept: BinaryIO) -> None:
    """Pass on what arrives, when it arrives; the command must not notice that nobody reads us."""
    with source, kept:
        while data := os.read(source.fileno(), 1 << 16):
            with contextlib.suppress(OSError, ValueError):
                kept.write(data)
                kept.flush()
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
        _end(child)
        raise
    finally:
        if main:
            signal.signal(signal.SIGTERM, before)
        _signal(child, signal.SIGKILL)
        child.wait()


def _end(child: subprocess.Popen[bytes]) -> None:
    """Tell the group to end, and wait for the child: first politely."""
    for number, seconds in _ENDING:
        _signal(child, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(seconds)
            return
    _signal(child, signal.SIGKILL)


def _signal(child: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # nobody of the group is left
        os.killpg(child.pid, number)
