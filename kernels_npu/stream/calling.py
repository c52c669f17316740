"""Calling TVM-FFI functions so that the kernels in them are launched on the current stream."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import torch

from kernels_npu.errors import UsageError
from kernels_npu.stream import exchange_patch
from kernels_npu.stream.devices import current_device_is
from kernels_npu.stream.report import ensure


class _Proofs(threading.local):
    """Device -> number of the table change after which it was proved, in this thread."""

    def __init__(self) -> None:
        self.made: dict[torch.device, int] = {}


_proofs = _Proofs()


def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a TVM-FFI function with the stream contract ensured, on its tensors' device.

    The first call of a thread on a device proves the contract there and patches the exchange table
    if that is needed; later ones only set the current device.

    Raises:
        UsageError: AI-STREAM-013 when no tensor, or tensors of several devices, are given.
        EnvironmentProblem: AI-STREAM-020 to 028 when the contract cannot be ensured.
        Exception: what reading the current stream raised, instead of tvm-ffi's SystemError.
    """
    device = device_of(a for a in arguments if isinstance(a, torch.Tensor))
    with current_device_is(device):
        if _proofs.made.get(device) != exchange_patch.changes():
            ensure(device)
            _proofs.made[device] = exchange_patch.changes()
        exchange_patch.take_error()
        try:
            return function(*arguments)
        except SystemError as error:
            cause = exchange_patch.take_error()
            if cause is None:
                raise
            raise cause from error


def device_of(tensors: Iterable[torch.Tensor]) -> torch.device:
    """The one device that `tensors` are on; those on the CPU do not count.

    Raises:
        UsageError: AI-STREAM-013 for none or several.
    """
    devices = {tensor.device for tensor in tensors} - {torch.device("cpu")}
    if len(devices) != 1:
        names = ", ".join(sorted(map(str, devices))) or "no device but the CPU"
        raise UsageError(
            "AI-STREAM-013",
            f"a kernel is launched with tensors of {names}",
            rule="a kernel runs on the current stream of one device, which its tensors are on",
            fix="move all tensors to one NPU",
        )
    return devices.pop()
