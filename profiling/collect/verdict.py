"""Whether a collection is one: what ran to its end, what is there, and what is missing."""

from __future__ import annotations

import math
import signal
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from kernels_npu.errors import AscendInferError
from kernels_npu.evidence import Evidence
from profiling.child_process import Ended
from profiling.collect.command import printed
from profiling.collect.options import Mode
from profiling.collect.request import Request
from profiling.collect.said import Said
from profiling.records.note import Note, Severity
from profiling.records.profile import Profile
from profiling.records.table import FileKind


def collected(mode: Mode, profile: Profile | None) -> int:
    """How many timed launches a profile holds; of a simulation, how many cores did something."""
    if profile is None:
        return 0
    if mode.evidence is Evidence.MODELLED:
        tables = sum(bool(table.rows) for table in profile.of_kind(FileKind.INSTRUCTIONS))
        return tables or sum(bool(trace.spans) for trace in profile.traces)
    if mode.application:
        return sum(len(tasks) for tasks in profile.tasks)
    infos = (kernel.info for kernel in profile.kernels)
    return sum(info is not None and info.task_duration_us is not None for info in infos)


def fault_of(
    request: Request,
    *,
    folder: Path,
    ended: Ended,
    limit_s: float | None,
    said: Said,
    profile: Profile | None,
) -> AscendInferError | None:
    """What is wrong with a collection; None when nothing is. Its data stay where they are."""
    count = collected(request.mode, profile)
    kept = f"; what was collected is in {folder} ({request.mode.counts}: {count})" if count else ""
    if ended.timed_out:
        return AscendInferError(
            "AI-PROF-041",
            f"the collection was ended after {limit_s:g} s{kept}",
            rule="a collection has as many seconds as --time-limit says",
            fix="profile fewer launches, or raise --time-limit",
        )
    if ended.status and not said.crash:
        return AscendInferError(
            "AI-PROF-002",
            f"the profiler ended with {_in_words(ended.status)}{_last(said)}{kept}",
            fix=f"run what is profiled alone, it has to work first: {_alone(request)}",
        )
    if said.crash and (ended.status or count < _wanted(request)):
        return AscendInferError(
            "AI-PROF-040",
            f"the application failed: {said.crash}{kept}",
            rule="what is profiled has to run to its end",
            fix=f"run it alone: {_alone(request)}; or: ascend-infer diagnose {folder}",
        )
    others = _others(request, profile)
    if others:
        return AscendInferError(
            "AI-PROF-003",
            f"of the collected kernels none is called {request.given['kernel-name']}, but "
            f"{', '.join(others)}{kept}",
            rule="what is collected has the names that were asked for",
            fix=f"--kernel-name={others[0]}, if that is the kernel",
        )
    damage = _damage(profile)
    simulated = request.mode.evidence is Evidence.MODELLED
    if not count and (damage is None or said.unmatched or simulated):
        return _nothing(request, folder, said, profile)
    if damage is not None:
        return AscendInferError(
            "AI-PROF-044",
            f"files are incomplete: {damage.what}{kept}",
            where=damage.where,
            rule="a profiler that ends well has written its files to their end",
            fix="look for free space on the disk, and collect again",
        )
    return None


def _others(request: Request, profile: Profile | None) -> list[str]:
    """The kernels that were collected, when none has a name that was asked for.

    The tool matches the beginnings of names, and calls that fuzzy: anywhere is good enough here.
    """
    wanted = request.given.get("kernel-name")
    kernels = () if profile is None else profile.kernels
    names = list(dict.fromkeys(kernel.info.name for kernel in kernels if kernel.info))
    if wanted is None or any(fnmatchcase(n, f"*{w}*") for n in names for w in wanted.split("|")):
        return []
    return names


def at_the_limit(request: Request, profile: Profile | None) -> Iterator[str]:
    """Says that there may have been more launches, when as many were collected as wanted."""
    count = collected(request.mode, profile)
    if 1 < _wanted(request) <= count:
        yield f"--launch-count={count} launches are collected; later ones are not among them"


def _damage(profile: Profile | None) -> Note | None:
    notes = () if profile is None else profile.notes
    return next((note for note in notes if note.severity is Severity.DAMAGE), None)


def _wanted(request: Request) -> float:
    """So many launches end a collection, whatever the application does afterwards.

    Of a simulation or a whole application nobody knows how many there should have been.
    """
    option = request.mode.by_name.get("launch-count")
    if option is None or request.mode.evidence is Evidence.MODELLED:
        return math.inf
    return int(request.given.get(option.name, option.default))


def _nothing(
    request: Request, folder: Path, said: Said, profile: Profile | None
) -> AscendInferError:
    names = request.given.get("kernel-name")
    if said.unmatched or (said.skipped and profile is None):
        seen = f"; launched were {', '.join(said.skipped)}" if said.skipped else ""
        return AscendInferError(
            "AI-PROF-003",
            f"no launched kernel matches --kernel-name={names}{seen}",
            rule="a name stands for the kernels that begin with it; * for any characters",
            fix=f"--kernel-name={said.skipped[0]}"
            if said.skipped
            else "check that the application launches the kernel; --kernel-name='*' takes any",
        )
    if not said.last:
        return AscendInferError(
            "AI-PROF-043",
            f"profiler and application printed not a word, and {folder} has no timed launch",
            rule="a collection leaves at least one launch",
            fix="run the application alone, and check that it launches a kernel",
        )
    if request.mode.evidence is Evidence.MODELLED:
        return AscendInferError(
            "AI-PROF-042",
            f"the simulation left no instruction in {folder}{_last(said)}",
            rule="the simulated program uses one device, and the simulator's runtime_camodel: it "
            "is linked against it, or finds it on LD_LIBRARY_PATH",
            fix="give --soc-version, and compile the kernel with more than -O0",
        )
    return AscendInferError(
        "AI-PROF-043",
        f"{folder} has no timed launch, and no known reason was printed{_last(said)}",
        rule="a collection leaves at least one launch",
        fix="check that the application launches a kernel on this device",
    )


def _alone(request: Request) -> str:
    named = [
        f"--{name}={request.given[name]}" for name in request.mode.inputs if name in request.given
    ]
    return printed(request.application or named)


def _in_words(status: int) -> str:
    if status >= 0:
        return f"exit code {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


def _last(said: Said) -> str:
    return f"; the last line: {said.last[-1]}" if said.last else ""
