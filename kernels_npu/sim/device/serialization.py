"""Saving and loading npu tensors: storages are written as host bytes and come back through the host."""

from __future__ import annotations

from typing import Any

import torch

from kernels_npu.sim.device.memory import device_index, wrap

#: Before PyTorch's own entry for PrivateUse1, which asks the C++ allocator for memory.
_PRIORITY = 19


def _tag(storage: Any) -> str | None:
    if storage.device.type == "npu":
        return f"npu:{storage.device.index or 0}"
    return None


def _restore(storage: Any, location: str) -> torch.UntypedStorage | None:
    if not location.startswith("npu"):
        return None
    index = device_index(torch.device(location))
    host = torch.empty(0, dtype=torch.uint8, device="cpu").set_(storage.untyped())
    return wrap(host.clone(), index).untyped_storage()


def install() -> None:
    """Register both directions with `torch.serialization`."""
    torch.serialization.register_package(_PRIORITY, _tag, _restore)
