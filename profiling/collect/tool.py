"""Which of the profiler's commands is installed, and its version."""

from __future__ import annotations

import io
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kernels_npu.errors import EnvironmentProblem, UsageError
from profiling.child_process import Stream, run_to_end
from profiling.collect.options import Mode
from profiling.collect.request import Request

#: Seconds in which it has to say its version.
_LIMIT_S = 5.0
_VERSION = re.compile(r"\d+\.\d+[\w.]*")
#: msOpProf counted 8.3, then 26.0. What lies between are releases of CANN, which say nothing here.
_NUMBERED = ((8, 3), (26, 0))


@dataclass(frozen=True, kw_only=True)
class Tool:
    """An installed profiler: the words that start it, where it is, and what it says of itself."""

    words: tuple[str, ...]
    program: str
    version: str


def find_tool(mode: Mode, environment: Mapping[str, str]) -> Tool:
    """The first of the mode's tools that is on the environment's PATH.

    Raises:
        EnvironmentProblem: AI-PROF-001 when none is.
    """
    words = words_of(mode, environment)
    program = shutil.which(words[0], path=environment.get("PATH"))
    if program is not None:
        return Tool(words=words, program=program, version=_version(words, environment))
    names = " or ".join(dict.fromkeys(words[0] for words in mode.tools))
    raise EnvironmentProblem(
        "AI-PROF-001",
        f"there is no {names} on the PATH",
        rule="it comes with CANN's toolkit",
        fix="source CANN's set_env.sh; --dry-run prints the command without it",
    )


def words_of(mode: Mode, environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """What starts the mode's tool here, or would if it were installed; runs nothing."""
    path = environment.get("PATH")
    found = (words for words in mode.tools if shutil.which(words[0], path=path))
    return next(found, mode.tools[0])


def _version(words: tuple[str, ...], environment: Mapping[str, str]) -> str:
    """What `--version` prints, reduced to the number; empty when there is none."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        nobody = io.BytesIO()
        try:
            ended = run_to_end(
                [*words, "--version"],
                environment,
                out=Stream(onward=nobody, kept=out),
                err=Stream(onward=nobody, kept=err),
                limit_s=_LIMIT_S,
            )
        except OSError:
            return ""  # running it will say why
        found = _VERSION.search((out.read_bytes() + err.read_bytes()).decode(errors="replace"))
    return found[0] if found and ended.status == 0 else ""


def check_version(request: Request, tool: Tool) -> None:
    """Refuse options that came later than the installed tool.

    Raises:
        UsageError: AI-PROF-038.
    """
    installed = _numbers(tool.version)
    if installed is None:
        return
    for name in request.given:
        since = request.mode.by_name[name].since
        if since and installed < (_numbers(since) or installed):
            raise UsageError(
                "AI-PROF-038",
                f"--{name} with {' '.join(tool.words)} {tool.version}",
                rule=f"--{name} came with msOpProf {since}",
                fix=f"leave --{name} out, or install a newer msOpProf",
            )


def _numbers(version: str) -> tuple[int, ...] | None:
    """The version for comparing; None when it is not one of msOpProf's."""
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:3])
    before, after = _NUMBERED
    return numbers if numbers[:2] == before or numbers[:2] >= after else None
