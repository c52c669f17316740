"""Calling TVM-FFI functions so that the kernels in them are launched on the current stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from kernels_npu.errors import UsageError
from kernels_npu.stream import exchange_patch
from kernels_npu.stream.devices import current_device_is
from kernels_npu.stream.report import ensure, is_ensured


def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a TVM-FFI function with the stream contract ensured, on its tensors' device.

    The first call of a thread on a device ensures the contract there; later ones only set the
    current device. Tensors on the CPU may be among the arguments.

    Raises:
        UsageError: AI-STREAM-013 when no tensor, or tensors of several devices, are given,
            AI-STREAM-029 when the first call is made during a capture.
        EnvironmentProblem: AI-STREAM-020 to 028 when the contract cannot be ensured.
        Exception: what reading the current stream raised, instead of tvm-ffi's SystemError.
    """
    device = device_of([a for a in arguments if isinstance(a, torch.Tensor) and not a.is_cpu])
    with current_device_is(device):
        if not is_ensured(device):
            ensure(device)
        exchange_patch.take_error()
        try:
            return function(*arguments)
        except SystemError as error:
            cause = exchange_patch.take_error()
            if cause is None:
                raise
            raise cause from error


def device_of(tensors: Sequence[torch.Tensor]) -> torch.device:
    """The one device, not the CPU, that all `tensors` are on.

    Raises:
        UsageError: AI-STREAM-013 for none or several.
    """
    devices = {tensor.device for tensor in tensors}
    if len(devices) != 1 or tensors[0].is_cpu:
        names = ", ".join(sorted(map(str, devices)))
        raise UsageError(
            "AI-STREAM-013",
            f"a kernel is launched with tensors of {names or 'no device'}",
            rule="a kernel runs on the current stream of one device, which its tensors are on",
            fix="move all tensors to one NPU",
        )
    return devices.pop()
