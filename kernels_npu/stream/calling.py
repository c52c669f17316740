"""Calling TVM-FFI functions so that the kernels in them are launched on the current stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from kernels_npu.errors import UsageError
from kernels_npu.stream import exchange_patch
from kernels_npu.stream.devices import KINDS, current_device_is
from kernels_npu.stream.report import ensure, is_ensured


def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a TVM-FFI function with the stream contract ensured, on its tensors' device.

    The first call of a thread on a device, with tensors of a type, ensures the contract for them;
    later ones only set the current device. Tensors may be in lists, tuples and dictionaries, and
    others on the CPU may be among them.

    Raises:
        UsageError: AI-STREAM-013 when no tensor, or tensors of several devices, are given,
            AI-STREAM-029 when the first call is made during a capture.
        EnvironmentProblem: AI-STREAM-020 to 028 when the contract cannot be ensured.
        Exception: what reading the current stream raised, instead of tvm-ffi's SystemError.
    """
    tensors = list(_tensors(arguments))
    device = device_of(tensors)
    with current_device_is(device):
        if not all(is_ensured(device, type(tensor)) for tensor in tensors):
            ensure(device, types={type(tensor) for tensor in tensors})
        exchange_patch.take_error()
        try:
            return function(*arguments)
        except SystemError as error:
            cause = exchange_patch.take_error()
            if cause is None:
                raise
            raise cause from error


def _tensors(arguments: Iterable[Any]) -> Iterator[torch.Tensor]:
    """Those not on the CPU: tvm-ffi asks for the stream of the first, wherever it stands."""
    for argument in arguments:
        if isinstance(argument, torch.Tensor):
            if not argument.is_cpu:
                yield argument
        elif isinstance(argument, (list, tuple)):
            yield from _tensors(argument)
        elif isinstance(argument, dict):
            yield from _tensors(argument.values())


def device_of(tensors: Sequence[torch.Tensor]) -> torch.device:
    """The one device with streams that all `tensors` are on.

    Raises:
        UsageError: AI-STREAM-013 for none, several, or another device such as the CPU.
    """
    devices = {tensor.device for tensor in tensors}
    if len(devices) != 1 or not all(device.type in KINDS for device in devices):
        names = ", ".join(sorted(map(str, devices)))
        raise UsageError(
            "AI-STREAM-013",
            f"a kernel is launched with torch tensors of {names or 'no device'}",
            rule="a kernel runs on the current stream of one device, which its tensors are on",
            fix="move all tensors to one NPU",
        )
    return devices.pop()
