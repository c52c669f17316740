"""Whether TVM-FFI kernels of this thread are launched on the current stream; patching if not."""

from __future__ import annotations

import sys
import threading
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import torch

from kernels_npu.errors import AscendInferError, EnvironmentProblem, UsageError
from kernels_npu.stream import exchange_patch
from kernels_npu.stream.checks import Check, not_run, probe, prove
from kernels_npu.stream.devices import with_index


@dataclass(frozen=True, kw_only=True)
class StreamReport:
    """The stream contract of TVM-FFI kernels in one thread.

    unpatched: the probe that led to the patch, when this examination made one. probe: what the
    table on `torch.Tensor` answers. proof: what a TVM-FFI function of this thread was given; the
    two may differ. patched: `torch.Tensor` has this package's table. others: further problems.
    simulated: the device is the simulated NPU.
    """

    device: str
    thread: str
    versions: dict[str, str | None]
    simulated: bool
    unpatched: Check | None
    patched: bool
    probe: Check
    proof: Check
    others: tuple[AscendInferError, ...]

    @property
    def launches_follow(self) -> bool:
        """Whether kernels launched by this thread follow the current stream, by both checks."""
        return self.probe.passed and self.proof.passed

    @property
    def passed(self) -> bool:
        """Whether that holds and nothing else is wrong."""
        return self.launches_follow and not self.others

    @property
    def problems(self) -> tuple[AscendInferError, ...]:
        """What is wrong, the most telling first."""
        found = (self.probe.problem, self.proof.problem, *self.others)
        return tuple(problem for problem in found if problem is not None)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready fields."""
        return {
            **vars(self),
            "passed": self.passed,
            "unpatched": None if self.unpatched is None else self.unpatched.to_dict(),
            "probe": self.probe.to_dict(),
            "proof": self.proof.to_dict(),
            "others": [problem.to_dict() for problem in self.others],
        }


#: Weights are of another type than activations.
TYPES = (torch.Tensor, torch.nn.Parameter)


class _Ensured(threading.local):
    """What was ensured in this thread -> the number of changes to the table by then."""

    def __init__(self) -> None:
        self.made: dict[tuple[torch.device, type[torch.Tensor]], int] = {}


_ensured = _Ensured()


def examine(
    device: torch.device | str,
    *,
    patch: bool = False,
    types: Collection[type[torch.Tensor]] = TYPES,
) -> StreamReport:
    """Probe the exchange table, patch it if asked to and needed, and prove the result.

    A proof lets tvm-ffi keep the present table in this thread. While the table is wrong it is left
    out: it would make a later patch come too late.

    Args:
        device: an `npu` or `cuda` device; without an index the current one.
        patch: install the patch when the probe fails on an NPU. It is taken off again when the
            probe fails with it, too; a proof that fails says nothing of other threads.
        types: of the tensors that kernels are given; the proof is made for each.

    Raises:
        UsageError: AI-STREAM-013 for a device that is not there or has no streams, AI-STREAM-029
            during a capture; whatever else is wrong is in the report.
    """
    device = with_index(device)
    if torch.get_device_module(device).is_current_stream_capturing():
        raise UsageError(
            "AI-STREAM-029",
            f"the streams of {device} are to be examined while the current one is captured",
            rule="an examination allocates memory and makes other streams current",
            fix="call kernels_npu.stream.ensure(device) in this thread before the capture begins",
        )
    with exchange_patch.lock:
        return _examined(device, patch, types)


def _examined(
    device: torch.device, patch: bool, types: Collection[type[torch.Tensor]]
) -> StreamReport:
    probed = probe(device)
    unpatched = None
    if patch and not probed.passed and device.type == "npu":
        try:
            exchange_patch.install()
        except EnvironmentProblem:
            pass  # there is no table, or a patch already: the probe has said what is wrong
        else:
            unpatched, probed = probed, probe(device)
    proof = prove(device, types) if probed.passed else not_run(_table_is_wrong())
    others = tuple(_other_problems(device))
    if unpatched is not None and not probed.passed:
        exchange_patch.undo()
    return StreamReport(
        device=str(device),
        thread=threading.current_thread().name,
        versions={name: _version(name) for name in ("torch", "torch_npu", "tvm_ffi")},
        simulated=getattr(sys.modules.get("torch_npu"), "simulated", False) is True,
        unpatched=unpatched,
        patched=exchange_patch.is_installed(),
        probe=probed,
        proof=proof,
        others=others,
    )


def ensure(
    device: torch.device | str, *, types: Collection[type[torch.Tensor]] = TYPES
) -> StreamReport:
    """Make TVM-FFI kernels that this thread launches follow the current stream, or refuse.

    May be called again, and has to be in every thread that launches, before it passes a tensor to
    tvm-ffi.

    Args:
        device: as of `examine`.
        types: of the tensors that kernels are given.

    Raises:
        UsageError: AI-STREAM-013 for a device that is not there or has no streams, AI-STREAM-029
            during a capture.
        EnvironmentProblem: AI-STREAM-020 to 028, the first problem of the report.
    """
    with exchange_patch.lock:
        report = examine(device, patch=True, types=types)
        if not report.launches_follow:
            raise report.problems[0]
        for kind in types:
            _ensured.made[torch.device(report.device), kind] = exchange_patch.changes()
    return report


def is_ensured(device: torch.device, kind: type[torch.Tensor]) -> bool:
    """Whether `ensure` succeeded for this in this thread, and no patch has changed since."""
    return _ensured.made.get((device, kind)) == exchange_patch.changes()


def _other_problems(device: torch.device) -> list[AscendInferError]:
    found: list[AscendInferError] = []
    try:
        exchange_patch.require_own()
    except EnvironmentProblem as problem:
        found.append(problem)
    current = torch.get_device_module(device).current_device()
    if current != device.index:
        found.append(
            EnvironmentProblem(
                "AI-STREAM-024",
                f"{device} is examined while {device.type}:{current} is the current device",
                rule="a TVM-FFI kernel looks up the stream of the current device, "
                "whatever device its tensors are on",
                fix=f"call torch.{device.type}.set_device({device.index}) in this thread, "
                "or launch with kernels_npu.stream.call",
            )
        )
    return found


def _table_is_wrong() -> EnvironmentProblem:
    return EnvironmentProblem(
        "AI-STREAM-021",
        "no proof is made while the exchange table is wrong",
        rule="tvm-ffi would keep the wrong table in this thread",
        fix="call kernels_npu.stream.ensure(device)",
    )


def _version(module: str) -> str | None:
    """Of what is loaded, which need not be what is installed."""
    version = getattr(sys.modules.get(module), "__version__", None)
    return None if version is None else str(version)
