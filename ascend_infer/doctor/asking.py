"""Questions to an installation, each asked in a child process with a time limit.

Importing torch or torch_npu can crash the process or hang on a device, reading a version file can
hang on a dead mount, and npu-smi can hang in the driver; the parent only sees that and says so.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

#: What starts a line that is an answer: imported packages print, too.
MARK = "ascend-infer-doctor:"
#: How long a killed child may take to end; one that hangs in the driver never does.
_FAREWELL_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One child process: `ascend_infer.doctor.probes.__main__` with a name and a time limit.

    sections: what it answers, in this order. environment: added to the present one.
    """

    name: str
    sections: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a probe said about one section, or why it did not: `failure` is empty when it did."""

    values: Mapping[str, Any] = field(default_factory=dict)
    failure: str = ""


_WITHOUT_AUTOLOAD = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
PROBES = (
    Probe(name="torch", sections=("torch", "simulator"), environment=_WITHOUT_AUTOLOAD),
    Probe(name="torch_npu", sections=("torch_npu", "stream", "streams", "tvm_ffi")),
    Probe(
        name="packages",
        sections=("versions", "dialect", "imports"),
        environment=_WITHOUT_AUTOLOAD,
    ),
    Probe(name="host", sections=("devices", "driver", "firmware", "cann", "directories")),
    Probe(name="npu-smi", sections=("npu-smi",)),
)


def ask_all(*, timeout_s: float) -> dict[str, Answer]:
    """The answers of all probes by section, asked side by side with `timeout_s` seconds each."""
    with ThreadPoolExecutor(max_workers=len(PROBES)) as pool:
        answers = pool.map(lambda probe: ask(probe, timeout_s=timeout_s), PROBES)
        return {name: answer for found in answers for name, answer in found.items()}


def ask(probe: Probe, *, timeout_s: float) -> dict[str, Answer]:
    """Run `probe` and read its answers. Never raises for what the child does."""
    output, failure = run(
        [sys.executable, "-c", _program(), probe.name, f"{timeout_s}"],
        timeout_s=timeout_s,
        environment=probe.environment,
    )
    answers = dict(_answers(output))
    silent = failure or "the probe ended without an answer"
    return {name: answers.get(name, Answer(failure=silent)) for name in probe.sections}


def _program() -> str:
    """The child looks for packages where this process does, in whatever folder it was started."""
    return (
        f"import sys; sys.path[:] = {sys.path!r}\n"
        "from ascend_infer.doctor.probes.__main__ import main; main()"
    )


def _answers(output: str) -> Iterator[tuple[str, Answer]]:
    for line in output.splitlines():
        if line.startswith(MARK):
            with contextlib.suppress(ValueError, KeyError, TypeError):
                said = json.loads(line[len(MARK) :])
                yield said["section"], Answer(values=said["values"], failure=said["failure"])


def run(
    command: list[str], *, timeout_s: float, environment: Mapping[str, str] | None = None
) -> tuple[str, str]:
    """The standard output of `command`, and why it failed; empty when it did not.

    At the time limit the command and all that it started are killed. A process that cannot be
    killed, because it waits in the driver, is left behind.
    """
    try:
        process = subprocess.Popen(
            command,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        return "", f"{command[0]} cannot be started: {error.strerror or error}"
    try:
        output, errors = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        output = ""
        with contextlib.suppress(subprocess.TimeoutExpired):
            output, _ = process.communicate(timeout=_FAREWELL_S)
        return output, f"no answer within {timeout_s:g} s"
    return output, _why(process.returncode, errors)


def _why(code: int, errors: str) -> str:
    """The last line that the child wrote to standard error, or the signal that ended it."""
    if code < 0:
        return f"the process was ended by signal {-code}"
    if code == 0:
        return ""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    return lines[-1] if lines else f"exit code {code} without a message"
