"""What the stream contract needs to know of a device type, and streams to ask about."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from kernels_npu.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class DeviceKind:
    """A device type. dlpack_type: its number in DLPack. handle: the raw handle of a stream."""

    dlpack_type: int
    handle: Callable[[Any], int]


#: PyTorch gives every PrivateUse1 device, the NPU among them, DLPack's kDLExtDev.
KINDS = {
    "npu": DeviceKind(dlpack_type=12, handle=lambda stream: int(stream.npu_stream)),
    "cuda": DeviceKind(dlpack_type=2, handle=lambda stream: int(stream.cuda_stream)),
}


def kind_of(device: torch.device) -> DeviceKind:
    """The row of `KINDS` for `device`.

    Raises:
        UsageError: AI-STREAM-013 for a device without streams, such as the CPU.
    """
    kind = KINDS.get(device.type)
    if kind is None:
        raise UsageError(
            "AI-STREAM-013",
            f"{device} has no streams that a kernel could be launched on",
            rule=f"kernels are launched on {' or '.join(KINDS)} devices",
            fix="pass a device such as npu:0",
        )
    return kind


def with_index(device: torch.device | str) -> torch.device:
    """`device` with its index: that of the current device unless it names one.

    Raises:
        UsageError: AI-STREAM-013 for a device without streams, or that this process does not have.
    """
    try:
        given = torch.device(device)
    except (RuntimeError, TypeError) as error:
        # torch knows the name `npu` only once torch_npu is imported.
        raise _absent(device, "torch does not know it") from error
    kind_of(given)
    module = torch.get_device_module(given)
    count = module.device_count()
    index: int | None = given.index
    if index is None and count:
        index = module.current_device()
    if index is None or index >= count:
        raise _absent(device, f"there are {count}")
    return torch.device(given.type, index)


def _absent(device: torch.device | str, why: str) -> UsageError:
    return UsageError(
        "AI-STREAM-013",
        f"{device!s} is not a device of this process: {why}",
        rule=f"kernels are launched on {' or '.join(KINDS)} devices",
        fix="import torch_npu first, or name a device that is there; `ascend-infer doctor` lists "
        "them",
    )


@dataclass(frozen=True, kw_only=True)
class StreamInUse:
    """A stream that is current in the body of `each_stream`, and its handle."""

    name: str
    handle: int


def each_stream(device: torch.device) -> Iterator[StreamInUse]:
    """Make two side streams and then the default stream of `device` current, one after another.

    Two side streams, because a constant answer could be right about one.
    """
    module = torch.get_device_module(device)
    handle = kind_of(device).handle
    streams = {
        "a side stream": module.Stream(device=device),
        "another side stream": module.Stream(device=device),
        "the default stream": module.default_stream(device),
    }
    for name, stream in streams.items():
        with module.stream(stream):
            yield StreamInUse(name=name, handle=handle(stream))


def current_device_is(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """A guard: `device` is the current one of its type in the body."""
    guard: contextlib.AbstractContextManager[Any] = torch.get_device_module(device).device(device)
    return guard
