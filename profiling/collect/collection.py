"""A collection from its request to its data, with a manifest beside them whatever happens."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from kernels_npu.errors import AscendInferError, EnvironmentProblem
from profiling.child_process import Ended, Stream, run_to_end
from profiling.collect import circumstances
from profiling.collect.command import argument_list
from profiling.collect.folder import run_folder, unwritable
from profiling.collect.host import check_host
from profiling.collect.request import Request, check
from profiling.collect.said import heard
from profiling.collect.tool import Tool, check_version, find_tool
from profiling.collect.verdict import at_the_limit, fault_of
from profiling.files import read_profile
from profiling.manifest import Manifest
from profiling.records.profile import Profile

#: Without these, what an application printed before it was killed is lost.
_TELLING = {"PYTHONFAULTHANDLER": "1", "PYTHONUNBUFFERED": "1"}
_OUT, _ERR = "output.out", "output.err"
#: What a manifest says until the end is reached: the code of an interruption.
_UNFINISHED = "AI-CLI-007"


@dataclass(frozen=True, kw_only=True)
class Collection:
    """What a run left.

    Args:
        folder: everything: the profiler's files, its outputs, the manifest.
        manifest: how it came to be.
        profile: what could be read; None when nothing could.
        warnings: what is worth knowing, and no error.
        error: why it is not what was asked for; None when it is.
    """

    folder: Path
    manifest: Manifest
    profile: Profile | None
    warnings: tuple[str, ...] = ()
    error: AscendInferError | None = None


def _say_nothing(folder: Path, command: Sequence[str]) -> None:
    """The `on_start` of callers who do not want to know."""


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What a collection runs in.

    Args:
        environment: of the command.
        limit_s: seconds that it has; None for no limit.
        onward: where its outputs go, beside the files that keep them.
        versions: for the manifest, beside those of Python packages.
        settings: for the manifest; conditions of the measurement under their names.
        on_start: called with the folder and the command, before that runs.
    """

    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    limit_s: float | None = None
    onward: BinaryIO = field(default_factory=lambda: sys.stderr.buffer)
    versions: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    on_start: Callable[[Path, Sequence[str]], None] = _say_nothing


def collect(request: Request, around: Surroundings | None = None) -> Collection:
    """Run the profiler, and say whether what it left is what was asked for.

    KeyboardInterrupt passes through; what there is stays, and the manifest says that it is partial.

    Raises:
        UsageError, EnvironmentProblem: nothing was run, because the profiler would refuse it or
            cannot be found; see `check`, `check_host`, `find_tool`, `check_version`, `run_folder`.
    """
    around = around or Surroundings()
    warnings = check(request)
    check_host(request, around.environment)
    tool = find_tool(request.mode, around.environment)
    check_version(request, tool)
    folder, more = run_folder(request.output, request.mode.name)
    command = argument_list(request, tool.words, folder)
    environment = {**_TELLING, **around.environment}
    begun = Manifest(
        evidence=request.mode.evidence,
        made_by=" ".join(tool.words),
        command=tuple(command),
        started=circumstances.now(),
        outcome=_UNFINISHED,
        versions=_versions(tool, around.versions),
        environment=circumstances.variables(environment),
        git=circumstances.git_state(),
        settings={**_settings(request), **around.settings},
    )
    begun.write(folder)
    around.on_start(folder, command)
    try:
        ended = _run(command, environment, folder, around)
    except AscendInferError as failure:
        replace(begun, ended=circumstances.now(), outcome=failure.code).write(folder)
        raise
    profile, unread = _read(folder)
    error = unread or fault_of(
        request,
        folder=folder,
        ended=ended,
        limit_s=around.limit_s,
        said=heard((folder / _OUT, folder / _ERR)),
        profile=profile,
    )
    manifest = replace(
        begun,
        ended=circumstances.now(),
        exit_status=None if ended.timed_out else ended.status,
        outcome=error.code if error else "",
    )
    manifest.write(folder)
    if profile is not None:
        final = tuple(manifest if one == begun else one for one in profile.manifests)
        profile = replace(profile, manifests=final)
    return Collection(
        folder=folder,
        manifest=manifest,
        profile=profile,
        warnings=(*warnings, *more, *at_the_limit(request, profile)),
        error=error,
    )


def _run(
    command: Sequence[str], environment: Mapping[str, str], folder: Path, around: Surroundings
) -> Ended:
    try:
        return run_to_end(
            command,
            environment,
            out=Stream(onward=around.onward, kept=folder / _OUT),
            err=Stream(onward=around.onward, kept=folder / _ERR),
            limit_s=around.limit_s,
        )
    except OSError as error:
        if error.filename != command[0]:
            raise unwritable(folder, error) from error
        raise EnvironmentProblem(
            "AI-PROF-002",
            f"{command[0]} cannot be started: {error.strerror}",
            rule="the first file of that name on the PATH is a program",
            fix="source CANN's set_env.sh: another file of that name is first on the PATH",
        ) from error


def _read(folder: Path) -> tuple[Profile | None, AscendInferError | None]:
    """The profile, or why there are files and none can be read."""
    try:
        return read_profile(folder), None
    except AscendInferError as error:
        return None, None if error.code == "AI-PROF-020" else error


def _settings(request: Request) -> dict[str, str]:
    """Where it ran, on what, and how it was warmed up."""
    settings = {"folder": os.getcwd(), "soc": request.chip}
    warm_up = request.mode.by_name.get("warm-up")
    if warm_up is not None:
        replays = request.given.get(warm_up.name, warm_up.default)
        settings["warm_up_and_caches"] = f"{replays} replays before measuring; caches as they left"
    return {name: text for name, text in settings.items() if text}


def _versions(tool: Tool, given: Mapping[str, str]) -> dict[str, str]:
    versions = {**circumstances.package_versions(), **given}
    return versions | {" ".join(tool.words): tool.version or "unknown"}
