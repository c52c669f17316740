"""What is profiled, with our defaults: our kernels' names, and what this host is."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ascend_infer import __version__
from kernels_npu.errors import UsageError
from kernels_npu.spec import OPERATORS, kernel_name
from profiling.collect import Mode, family_of

#: Launches to collect of a program that may launch all our kernels, which are more than one.
_LAUNCHES = "100"


def selection(mode: Mode, values: Mapping[str, str], operator: str | None) -> dict[str, str]:
    """`values` with the kernels to collect: all of ours, or the operator's, unless they are named.

    Without names the profiler collects the first kernel that a program launches, and no other.
    """
    if "kernel-name" not in mode.by_name or any(name in values for name in mode.inputs):
        return dict(values)
    names = "|".join(f"{kernel_name(name)}*" for name in ([operator] if operator else OPERATORS))
    return {"kernel-name": names, "launch-count": "1" if operator else _LAUNCHES, **values}


@dataclass(frozen=True, kw_only=True)
class OperatorTarget:
    """One of our operators as the thing that is profiled.

    case: name of its workload; None for the first. device: where its program launches it.
    """

    name: str
    case: str | None = None
    dtype: str = "float16"
    device: str = "npu"

    def __post_init__(self) -> None:
        if self.name not in OPERATORS:
            raise UsageError(
                "AI-CLI-001",
                f"--op {self.name}",
                rule=f"operators are {', '.join(OPERATORS)}",
                fix="correct --op",
            )

    def with_known_case(self) -> OperatorTarget:
        """The same with a workload that exists; unchanged where torch is not installed.

        Raises:
            UsageError: AI-CLI-001 when the operator has no workload of that name.
        """
        if importlib.util.find_spec("torch") is None:
            return self
        from ascend_infer.operator_launch import workload_of

        return replace(self, case=workload_of(self.name, self.case).name)

    def application(self, launches: str) -> tuple[str, ...]:
        """A program that launches the operator's kernel, and no other kernel of ours."""
        return (
            sys.executable,
            "-m",
            "ascend_infer.operator_launch",
            f"--op={self.name}",
            *([f"--case={self.case}"] if self.case else []),
            f"--dtype={self.dtype}",
            f"--launches={launches}",
            f"--device={self.device}",
        )

    def conditions(self) -> dict[str, str]:
        """What is known of a measurement's conditions, by their names."""
        return {
            "model": f"the operator {self.name} alone, {self.dtype}",
            "lengths": f"as in the workload {self.case or 'that comes first'}",
            "parallelism": "one device",
            "load": "one launch at a time",
            "graph_mode": "eager",
        }


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
