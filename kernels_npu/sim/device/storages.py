"""Storages of npu tensors made by hand: `UntypedStorage(n, device="npu")`, deepcopy, save and load.

PyTorch would ask PrivateUse1's allocator, which a Python back end cannot provide, and crash.
"""

from __future__ import annotations

from typing import Any

import torch

from kernels_npu.sim.device.errors import NotSimulatedError
from kernels_npu.sim.device.memory import device_index, poisoned, wrap

#: Before PyTorch's own entries in `torch.serialization`.
_PRIORITY = 19


def allocate_storage(nbytes: int, device: torch.device) -> torch.UntypedStorage:
    """Uninitialised npu memory without a tensor."""
    memory = poisoned((nbytes,), None, torch.uint8)
    return wrap(memory, device_index(device)).untyped_storage()


def _tag(storage: Any) -> str | None:
    if storage.device.type == "npu":
        return f"npu:{storage.device.index or 0}"
    return None


def _restore(storage: Any, location: str) -> torch.UntypedStorage | None:
    if not location.startswith("npu"):
        return None
    target = allocate_storage(storage.nbytes(), torch.device(location))
    untyped = storage if isinstance(storage, torch.UntypedStorage) else storage.untyped()
    target.copy_(untyped)
    return target


def install() -> None:
    """Route allocations of npu storages here and register with `torch.serialization`."""
    storage_type: Any = torch.UntypedStorage
    original = storage_type.__new__

    def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        if device is not None and torch.device(device).type == "npu":
            return allocate_storage(int(args[0]) if args else 0, torch.device(device))
        return original(cls, *args, **kwargs)

    resize = storage_type.resize_

    def resize_(self: Any, size: int) -> Any:
        if self.device.type == "npu":
            raise NotSimulatedError(
                "AI-DEV-008",
                f"UntypedStorage.resize_({size}) of a storage on {self.device} is not simulated",
                rule="memory of the simulated device never moves under its tensors",
                fix="resize the tensor: tensor.resize_(...)",
            )
        return resize(self, size)

    storage_type.__new__ = new
    storage_type.resize_ = resize_
    torch.serialization.register_package(_PRIORITY, _tag, _restore)
