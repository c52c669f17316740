"""The profiler's argument list. No shell ever sees it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from kernels_npu.errors import UsageError
from profiling.collect.request import Request

#: What a text of several arguments can be taken apart at.
_SPECIAL = re.compile(r"[\s'\"\\]")


def argument_list(request: Request, tool: Sequence[str], output: Path) -> list[str]:
    """The command that collects `request` into `output` with `tool`.

    The application stands at the end, as separate arguments: nothing in it can be taken for an
    option of the tool, or be split.

    Raises:
        UsageError: AI-PROF-039 for arguments that `msprof` would take apart.
    """
    mode = request.mode
    options = [f"--{name}={value}" for name, value in request.given.items()]
    application = list(request.application)
    if mode.application:
        application = [f"--{mode.application}={_as_one_text(application)}"]
    return [*tool, f"--output={output}", *mode.fixed, *options, *application]


def printed(command: Sequence[str]) -> str:
    """The command as a shell would take it."""
    return shlex.join(command)


def _as_one_text(application: Sequence[str]) -> str:
    for argument in application:
        if not argument or _SPECIAL.search(argument):
            raise UsageError(
                "AI-PROF-039",
                f"the argument {argument!r} of the application",
                rule="msprof takes the application as one text and splits it at spaces; how it "
                "treats quotes is not documented",
                fix="put the command into a script, and profile that",
            )
    return " ".join(application)
