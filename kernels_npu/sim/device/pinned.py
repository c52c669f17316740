"""Page-locked host memory: a mark on a CPU storage, which capture asks for.

The hooks of a Python back end cannot give PyTorch an allocator, so `pin_memory=True` of the usual
factories is taken off here and the result is marked instead.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _device

_FACTORIES = (
    *("empty", "zeros", "ones", "full", "arange", "tensor", "rand", "randn", "randint"),
    *("empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like"),
    *("empty_strided", "eye", "linspace"),
)
_clone = torch.ops.aten.clone.default._op


def mark(tensor: torch.Tensor) -> torch.Tensor:
    """Note that the memory of a CPU tensor is page-locked."""
    tensor.untyped_storage().npu_pinned = True  # type: ignore[attr-defined]
    return tensor


def is_pinned(tensor: torch.Tensor, device: torch.device | None = None) -> bool:
    """Whether the memory of a CPU tensor is page-locked."""
    return getattr(tensor.untyped_storage(), "npu_pinned", False)


def pin(tensor: torch.Tensor, device: torch.device | None = None) -> torch.Tensor:
    """A page-locked copy of a CPU tensor."""
    return mark(_clone(tensor))


def _pinning(factory: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    @functools.wraps(factory)
    def create(*args: Any, **kwargs: Any) -> torch.Tensor:
        if kwargs.pop("pin_memory", False):
            kwargs.setdefault("device", "cpu")
            return mark(factory(*args, **kwargs))
        return factory(*args, **kwargs)

    return create


def install() -> None:
    """Let the factories of `torch` take `pin_memory=True`."""
    # Cached: `set_default_device` recognises the originals by identity.
    _device._device_constructors()
    for name in _FACTORIES:
        setattr(torch, name, _pinning(getattr(torch, name)))


#: For `torch.library`, on the key of CPU tensors.
HOST_KERNELS = {"is_pinned": is_pinned, "_pin_memory": pin}
