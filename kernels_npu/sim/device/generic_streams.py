"""`torch.Stream` and `torch.Event` for the simulated device.

PyTorch would make both in C++, which asks a Python back end for nothing: every such stream would be
the default one, and the order that its user asks for would neither hold nor be checked.
"""

from __future__ import annotations

from typing import Any

import torch

from kernels_npu.sim.device import streams

_HostStream = torch.Stream
_HostEvent = torch.Event


class _Generic(type):
    """For classes that make the device's objects and whose instances include PyTorch's own."""

    members: tuple[type, ...]

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.members)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return type.__subclasscheck__(cls, subclass) or issubclass(subclass, cls.members)


def _is_npu(device: Any) -> bool:
    return device is None or isinstance(device, int) or torch.device(device).type == "npu"


class TorchStream(metaclass=_Generic):
    """Stands for `torch.Stream`."""

    members = (_HostStream,)

    def __new__(cls, device: Any = None, priority: int = 0, **ids: int) -> Any:
        kind = ids.get("device_type")
        npu = _is_npu(device) if kind is None else kind == streams.PRIVATE_USE
        if npu:
            return streams.Stream(device, priority, **ids)
        return _HostStream(device, priority=priority) if kind is None else _HostStream(**ids)


class TorchEvent(metaclass=_Generic):
    """Stands for `torch.Event`."""

    members = (_HostEvent, streams.Event)

    def __new__(cls, device: Any = None, **options: bool) -> Any:
        return streams.Event(**options) if _is_npu(device) else _HostEvent(device, **options)


def install() -> None:
    """Put both in their places."""
    torch.Stream = TorchStream  # type: ignore[assignment,misc]
    torch.Event = TorchEvent  # type: ignore[misc]
