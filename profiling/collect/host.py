"""What only the host can tell about a request: files, programs, variables."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from kernels_npu.errors import EnvironmentProblem, UsageError
from kernels_npu.evidence import Evidence
from profiling.collect.request import Request
from profiling.collect.values import File

#: Documented as not supported together with profiling.
_UNSUPPORTED = "ASCEND_RT_VISIBLE_DEVICES"
_SIMULATORS = "tools/simulator"


def check_host(request: Request, environment: Mapping[str, str]) -> None:
    """Refuse what could not run here.

    Raises:
        UsageError: AI-PROF-034 for a file or simulator that is not there, 039 for an application.
        EnvironmentProblem: AI-PROF-004 for a variable that profiling does not support.
    """
    _check_files(request)
    if request.application:
        _check_application(request.application[0], environment)
    if "soc-version" in request.values:
        _check_simulator(request.values["soc-version"], environment)
    visible = environment.get(_UNSUPPORTED)
    if visible is not None and request.mode.evidence is Evidence.NPU_MEASURED:
        raise EnvironmentProblem(
            "AI-PROF-004",
            f"{_UNSUPPORTED}={visible}",
            rule="CANN documents this variable as not supported together with profiling",
            fix="unset it and choose the device in the program, as with --device npu:N",
        )


def _check_files(request: Request) -> None:
    for name, text in request.given.items():
        value = request.mode.by_name[name].value
        missing = value.missing(text) if isinstance(value, File) else ""
        if missing:
            raise UsageError(
                "AI-PROF-034",
                f"--{name}={text}: {missing}",
                rule=f"--{name} takes {value.rule}",
                fix=f"correct the path of --{name}",
            )


def _check_application(program: str, environment: Mapping[str, str]) -> None:
    """As the profiler looks for it: on the PATH, or at a path."""
    if shutil.which(program, path=environment.get("PATH")) is not None:
        return
    is_file = os.path.isfile(program)
    raise UsageError(
        "AI-PROF-039",
        f"the application {program!r} is {'not executable' if is_file else 'not there'}",
        rule="the profiler starts a program that is executable, or on the PATH",
        fix=f"ascend-infer profile ... -- python {program}"
        if program.endswith(".py")
        else f"chmod u+x {program}"
        if is_file
        else "correct the name, or give its path",
    )


def _check_simulator(soc_version: str, environment: Mapping[str, str]) -> None:
    """Only where CANN's simulators are where they are looked for."""
    home = environment.get("ASCEND_HOME_PATH")
    folder = Path(home or "", _SIMULATORS)
    if not home or not folder.is_dir() or (folder / soc_version).is_dir():
        return
    there = sorted(path.name for path in folder.iterdir() if path.name.startswith("Ascend"))
    raise UsageError(
        "AI-PROF-034",
        f"--soc-version={soc_version}: {folder} has no such folder",
        rule=f"the simulators there are {', '.join(there) or 'none'}",
        fix=f"--soc-version={there[0]}" if there else "install CANN's simulators",
    )
