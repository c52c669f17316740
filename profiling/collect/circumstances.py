"""What a manifest says about where a command ran: variables, versions, the state of git."""

from __future__ import annotations

import contextlib
import datetime
import platform
import re
import subprocess
from collections.abc import Mapping
from importlib import metadata

#: Variables that change what is run or measured. Nothing that may hold a secret begins like these.
_VARIABLES = re.compile(
    r"(ASCEND|ACL|HCCL|MSOPT|MSPROF|TILELANG|TL|TORCH|TORCHINDUCTOR|PYTORCH_NPU|NPU)_.+"
    r"|TASK_QUEUE_ENABLE|PER_STREAM_QUEUE|STREAMS_PER_DEVICE|OMP_NUM_THREADS|LD_LIBRARY_PATH"
    r"|PYTHONPATH|PYTHONFAULTHANDLER|PYTHONUNBUFFERED|TRITON_DISABLE_LINE_INFO"
)
_PACKAGES = ("ascend-infer", "torch", "torch_npu", "tilelang")
#: Seconds for each question to git.
_LIMIT_S = 10.0
_QUESTIONS = {
    "commit": ("rev-parse", "HEAD"),
    "branch": ("rev-parse", "--abbrev-ref", "HEAD"),
    "changes": ("status", "--porcelain", "--untracked-files=no"),
}


def now() -> str:
    """UTC, ISO 8601, to the second."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Those of the variables that a reader needs, in the order of their names."""
    return {name: environment[name] for name in sorted(environment) if _VARIABLES.fullmatch(name)}


def package_versions() -> dict[str, str]:
    """Python, and of ours, torch and TileLang what is installed; nothing is imported."""
    versions = {"Python": platform.python_version()}
    for name in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


def git_state() -> dict[str, str]:
    """Commit, branch and number of changed files of the working folder; empty without git."""
    answers = {}
    for what, words in _QUESTIONS.items():
        try:
            said = subprocess.run(
                ["git", *words],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_LIMIT_S,
                check=True,
            )
        except (OSError, subprocess.SubprocessError):
            return {}
        answers[what] = said.stdout.decode(errors="replace").rstrip("\n")
    answers["changes"] = str(len(answers["changes"].splitlines()))
    return answers
