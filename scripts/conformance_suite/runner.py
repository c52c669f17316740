"""One file in processes of its own, with a time limit."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance_suite.catalogue import Judge, Run, judge_of, threads_of

ROOT = Path(__file__).resolve().parents[2]
_running: set[subprocess.Popen[bytes]] = set()


@dataclass(frozen=True, kw_only=True)
class Execution:
    """What one process left behind.

    exit_code: the file's own, whatever was found; None when it was stopped at the time limit.
    report: what `sim run --report` wrote. evidence: see `observe.Evidence`. output: standard output
    and error together.
    """

    exit_code: int | None
    seconds: float
    output: str
    report: dict[str, Any] = field(default_factory=dict)
    evidence: dict[str, Any] = field(default_factory=dict)


def execute(
    clone: Path, file: str, judge: Judge, run: Run, *, timeout: float, log: Path
) -> Execution:
    """Run `file` once under `sim run` with all checks on; its output goes to `log`."""
    with tempfile.TemporaryDirectory(prefix="conformance-") as scratch:
        report, evidence = Path(scratch, "report.json"), Path(scratch, "evidence.json")
        command = [sys.executable, "-m", "ascend_infer", "sim", "run", "--report", str(report)]
        if run.target:
            command += ["--target", run.target]
        command += ["-m", "conformance_suite.observe", str(evidence), judge.by]
        command += [str(clone / file), *run.arguments]
        started = time.monotonic()
        with log.open("ab") as stream:
            position = stream.tell()
            process = subprocess.Popen(
                command,
                # Files write next to where they are started; the clone stays as it is.
                cwd=scratch,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env=_environment(threads_of(file)),
                start_new_session=True,
            )
            _running.add(process)
            try:
                exit_code: int | None = process.wait(timeout)
            except subprocess.TimeoutExpired:
                exit_code = None
            finally:
                _kill(process)
                process.wait()
                _running.discard(process)
        result = _read(report)
        if exit_code is not None:
            exit_code = int(result.get("script_exit_code", exit_code))
        return Execution(
            exit_code=exit_code,
            seconds=time.monotonic() - started,
            output=log.read_bytes()[position:].decode("utf-8", "replace"),
            report=result,
            evidence=_read(evidence),
        )


def stop_all() -> None:
    """End every process that is running: the user has had enough."""
    for process in list(_running):
        _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and what it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def execute_all(clone: Path, file: str, *, timeout: float, logs: Path) -> list[Execution]:
    """All runs that the verdict on `file` needs."""
    judge = judge_of(file)
    log = logs / (file.replace("/", "__") + ".log")
    log.unlink(missing_ok=True)
    return [execute(clone, file, judge, run, timeout=timeout, log=log) for run in judge.runs]


def _environment(threads: int) -> dict[str, str]:
    paths = [str(ROOT / "scripts"), str(ROOT)]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "NO_COLOR": "1",
    }


def _read(path: Path) -> dict[str, Any]:
    """A JSON file, or nothing where the process did not get that far."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}
