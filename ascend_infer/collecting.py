"""What is profiled, with our defaults: our kernels' names, and what this host is."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from ascend_infer import __version__
from kernels_npu.errors import UsageError
from kernels_npu.spec import OPERATORS, kernel_name
from profiling.collect import Mode, family_of

#: Launches to collect of a program that may launch all our kernels, which are more than one.
_LAUNCHES = "100"


def selection(mode: Mode, values: Mapping[str, str], *, operator: str | None) -> dict[str, str]:
    """`values` with the kernels to collect: all of ours, or the operator's, unless they are named.

    Without names the profiler collects the first kernel that a program launches, and no other.
    """
    if "kernel-name" not in mode.by_name or any(name in values for name in mode.inputs):
        return dict(values)
    names = "|".join(f"{kernel_name(name)}*" for name in ([operator] if operator else OPERATORS))
    return {"kernel-name": names, "launch-count": "1" if operator else _LAUNCHES, **values}


def operator_application(
    operator: str, *, case: str | None, dtype: str, device: str, launches: str
) -> tuple[str, ...]:
    """A program that launches the operator's kernel.

    Raises:
        UsageError: AI-CLI-001 for an operator or workload that does not exist. Workloads are known
            only where torch is installed; elsewhere the program says so.
    """
    if operator not in OPERATORS:
        raise UsageError(
            "AI-CLI-001",
            f"--op {operator}",
            rule=f"operators are {', '.join(OPERATORS)}",
            fix="correct --op",
        )
    if case is not None and importlib.util.find_spec("torch") is not None:
        from ascend_infer.operator_launch import workload_of

        workload_of(operator, case)
    return (
        sys.executable,
        "-m",
        "ascend_infer.operator_launch",
        f"--op={operator}",
        *([f"--case={case}"] if case else []),
        f"--dtype={dtype}",
        f"--launches={launches}",
        f"--device={device}",
    )


def host_soc() -> str:
    """This host's chip, as npu-smi names it; empty when it does not tell."""
    from ascend_infer.doctor.probes.npu_smi import info

    for npu in info().get("npus", ()):
        with contextlib.suppress(UsageError):
            family_of(npu["name"])
            return str(npu["name"])
    return ""


def host_versions() -> dict[str, str]:
    """CANN's version, as its files have it, and our own."""
    from ascend_infer.doctor.probes.cann import describe

    home = os.environ.get("ASCEND_HOME_PATH")
    version = describe(Path(home))["version"] if home else None
    return {"ascend-infer": __version__, **({"CANN": version} if version else {})}
