"""`torch.accelerator`, whose C++ half cannot ask a Python back end for streams."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from kernels_npu.sim.device import npu_module, npu_resources, streams
from kernels_npu.sim.device.state import current


def _set_stream(stream: streams.Stream) -> None:
    npu_module.set_stream(stream)


def _current_device_index() -> int:
    return current.device


def _empty_cache() -> None:
    npu_resources.empty_cache()


def _own(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of its own: torch.compile has one rule for it and another for torch.npu's."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


def install() -> None:
    """Replace the functions that ask the device; the rest of the namespace works as it is."""
    replaced: dict[str, Any] = {
        "current_stream": streams.current_stream,
        "set_stream": _set_stream,
        "synchronize": streams.synchronize,
        "current_device_index": _current_device_index,
        "set_device_index": npu_module.set_device,
        "empty_cache": _empty_cache,
        "memory_allocated": npu_resources.memory_allocated,
        "max_memory_allocated": npu_resources.max_memory_allocated,
        "memory_reserved": npu_resources.memory_reserved,
        "max_memory_reserved": npu_resources.max_memory_reserved,
        "get_memory_info": npu_resources.mem_get_info,
        "memory_stats": npu_resources.memory_stats,
    }
    for name, function in replaced.items():
        setattr(torch.accelerator, name, _own(function))
