"""The profiler's argument list. No shell ever sees it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from profiling.collect.request import Request


def argument_list(request: Request, tool: Sequence[str], output: Path) -> list[str]:
    """The command that collects a request that passed `check` into `output` with `tool`.

    The application stands at the end, as separate arguments: nothing in it can be taken for an
    option of the tool, or be split. Where the tool knows one text only, `check` has refused what
    could be.
    """
    mode = request.mode
    options = [f"--{name}={value}" for name, value in request.given.items()]
    application = list(request.application)
    if mode.application:
        application = [f"--{mode.application}={' '.join(application)}"]
    return [*tool, f"--output={output}", *mode.fixed, *options, *application]


def printed(command: Sequence[str]) -> str:
    """The command as a shell would take it."""
    return shlex.join(command)
