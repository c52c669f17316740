"""Launching a compiled kernel, and what its grid has to know about the device."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any

import torch

from kernels_npu import dialect
from kernels_npu.errors import EnvironmentProblem
from kernels_npu.stream import current_raw_stream, device_of
from kernels_npu.stream.devices import current_device_is

#: Blocks of a launch when the device does not say how many cores it has: the smallest A2 part.
_FEWEST_CORES = 20
#: The only way into a kernel of the adapter that launches on the stream that it is given.
_BACKEND = "cython"
#: Held by a launch that has changed torch's setting, which is one for all threads.
_unfilled = threading.RLock()


def launch(kernel: Any, *tensors: torch.Tensor) -> Any:
    """Run a `JITKernel` on the current stream of its tensors' device.

    Raises:
        UsageError: AI-STREAM-013 when the tensors are not on one NPU.
        EnvironmentProblem: AI-STREAM-010 to 012 when the stream cannot be passed to the kernel.
    """
    if dialect.name != "adapter":
        return kernel(*tensors)
    _require_backend(kernel)
    device = device_of(tensors)
    with current_device_is(device), _memory_left_unfilled():
        # Nothing may come between reading the stream and the launch: not even a fill.
        return kernel(*tensors, stream=current_raw_stream(device))


def _require_backend(kernel: Any) -> None:
    backend = getattr(kernel, "execution_backend", None)
    if backend != _BACKEND:
        raise EnvironmentProblem(
            "AI-STREAM-012",
            f"the kernel was compiled with execution_backend={backend!r}",
            rule="ctypes asks for CUDA's stream and launches on 0 elsewhere, dlpack asks nobody, "
            "and npuir reads the stream once, when the kernel is made",
            fix=f'compile it with execution_backend="{_BACKEND}"',
        )


@contextlib.contextmanager
def _memory_left_unfilled() -> Iterator[None]:
    """Keep `torch.empty` in the body from enqueueing a fill.

    The adapter allocates outputs and workspaces between being given the stream and launching. With
    deterministic algorithms torch fills such memory, by an operation that would wait in torch_npu's
    host queue and overwrite what the kernel has written.
    """
    if not torch.are_deterministic_algorithms_enabled():
        yield
        return
    settings: Any = torch.utils.deterministic
    with _unfilled:
        before = settings.fill_uninitialized_memory
        settings.fill_uninitialized_memory = False
        try:
            yield
        finally:
            settings.fill_uninitialized_memory = before


@functools.cache
def block_count(device: torch.device) -> int:
    """How many blocks fill `device`: one per cube core, each with two vector cores."""
    if device.type == "cpu":  # the simulated NPU without a device: `sim.device.host_memory`
        return _FEWEST_CORES
    properties = torch.get_device_module(device).get_device_properties(device)
    return int(getattr(properties, "cube_core_num", 0) or _FEWEST_CORES)
