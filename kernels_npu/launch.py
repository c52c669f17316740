"""Launching a compiled kernel, and what its grid has to know about the device."""

from __future__ import annotations

import functools
from typing import Any

import torch

from kernels_npu import dialect
from kernels_npu.stream import current_raw_stream

#: Blocks of a launch when the device does not say how many cores it has: the smallest A2 part.
_FEWEST_CORES = 20


def launch(kernel: Any, *tensors: torch.Tensor) -> Any:
    """Run a `JITKernel` on the current stream of its tensors' device."""
    if dialect.name == "adapter":
        return kernel(*tensors, stream=current_raw_stream(tensors[0].device))
    return kernel(*tensors)


@functools.cache
def block_count(device: torch.device) -> int:
    """How many blocks fill `device`: one per cube core, each with two vector cores."""
    properties = torch.get_device_module(device).get_device_properties(device)
    return int(getattr(properties, "cube_core_num", 0) or _FEWEST_CORES)
