"""Reading the current stream, for one launch and never for the next.

On a real NPU a launch takes torch_npu's current stream, read immediately before the launch. Reading
it through `_npu_getCurrentRawStream` or `Stream.npu_stream` first hands torch_npu's queued
operations to the device, so that the launch stays behind them; a handle that was saved, or read by
a `NoWait` variant, loses that order. The null stream is refused: work on it is invisible to a
capture. The current stream belongs to the thread, and while a graph is captured it is the stream
that is captured: nothing has to be done for it but not to remember an older handle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from kernels_npu.errors import EnvironmentProblem


def raw_accessor(torch_npu: Any) -> Callable[[int], int] | None:
    """torch_npu's cheap accessor of the current stream of a device, when this version has it."""
    accessor = getattr(getattr(torch_npu, "_C", None), "_npu_getCurrentRawStream", None)
    return accessor if callable(accessor) else None


def current_raw_stream(device: torch.device) -> int:
    """The handle of torch_npu's current stream on `device`; for this launch only, never to be kept.

    Raises:
        EnvironmentProblem: AI-STREAM-010 without an accessor, AI-STREAM-011 when the handle is 0.
    """
    import torch_npu

    current: int | None = device.index  # None for "npu" without a number, whatever torch declares
    index = torch_npu.npu.current_device() if current is None else current
    accessor = raw_accessor(torch_npu)
    if accessor is not None:
        handle = accessor(index)
    else:
        stream = torch_npu.npu.current_stream(index)
        if not hasattr(stream, "npu_stream"):
            raise EnvironmentProblem(
                "AI-STREAM-010",
                f"torch_npu {getattr(torch_npu, '__version__', '?')} has neither "
                "_C._npu_getCurrentRawStream nor Stream.npu_stream",
                fix="install a torch_npu release between 2.7 and the current one",
            )
        handle = stream.npu_stream
    if not handle:
        raise EnvironmentProblem(
            "AI-STREAM-011",
            f"the current stream of npu:{index} has handle 0",
            rule="work on the null stream is not ordered with torch's and not captured",
            fix="call torch.npu.set_device before the first launch, or enter torch.npu.stream(...)",
        )
    return int(handle)
