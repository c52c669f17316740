"""The module `torch.npu`: the part of torch_npu's API that the simulated device has."""

from __future__ import annotations

import types
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NoReturn

import torch

from kernels_npu.sim.device import graph, rng, streams
from kernels_npu.sim.device.errors import NotSimulatedError
from kernels_npu.sim.device.state import current, device_state, process
from kernels_npu.sim.device.streams import DeviceLike, index_of
from kernels_npu.sim.soc import Soc, get_soc


@dataclass(frozen=True, kw_only=True)
class DeviceProperties:
    """What `torch.npu.get_device_properties` returns."""

    name: str
    total_memory: int
    cube_core_num: int
    vector_core_num: int
    L2_cache_size: int
    major: int = 0
    minor: int = 0


class device:
    """`with torch.npu.device(1):` makes that device current; None or -1 changes nothing."""

    def __init__(self, device: DeviceLike) -> None:
        self.idx = -1 if device is None or device == -1 else index_of(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = current.device
        if self.idx >= 0:
            current.device = self.idx

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        current.device = self.prev_idx


def _soc() -> Soc:
    return get_soc(process.settings.soc)


def is_available() -> bool:
    """True: the simulated device is always there."""
    return True


def device_count() -> int:
    """Number of simulated devices."""
    return len(process.devices)


def current_device() -> int:
    """Index of the current device of this thread."""
    return current.device


def set_device(device: DeviceLike) -> None:
    """Make `device` current in this thread."""
    current.device = index_of(device)


def get_device_name(device: DeviceLike = None) -> str:
    """The SoC version."""
    index_of(device)
    return _soc().name


def get_device_properties(device: DeviceLike = None) -> DeviceProperties:
    """Core counts and memory of the simulated SoC."""
    index_of(device)
    soc = _soc()
    return DeviceProperties(
        name=soc.name,
        total_memory=soc.memory_bytes,
        cube_core_num=soc.cube_cores,
        vector_core_num=soc.vector_cores,
        L2_cache_size=soc.l2_bytes,
    )


def get_device_capability(device: DeviceLike = None) -> None:
    """None, as in torch_npu."""
    index_of(device)


def set_stream(stream: streams.Stream) -> None:
    """Make `stream` current on its device in this thread."""
    streams.set_stream(stream._state)


def memory_allocated(device: DeviceLike = None) -> int:
    """Bytes of live npu storages."""
    return device_state(index_of(device)).allocated


def max_memory_allocated(device: DeviceLike = None) -> int:
    """The most bytes that were alive at once since `reset_peak_memory_stats`."""
    return device_state(index_of(device)).peak


def memory_reserved(device: DeviceLike = None) -> int:
    """Live bytes, or the memory of graph pools when that is more."""
    state = device_state(index_of(device))
    return max(state.allocated, state.reserved)


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    """Start the peak from the bytes alive now."""
    state = device_state(index_of(device))
    state.peak = state.allocated


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """(free, total) bytes of the device."""
    total = _soc().memory_bytes
    return total - memory_reserved(device), total


def memory_stats(device: DeviceLike = None) -> dict[str, int]:
    """The figures above under the allocator's names."""
    return {
        "allocated_bytes.all.current": memory_allocated(device),
        "allocated_bytes.all.peak": max_memory_allocated(device),
        "reserved_bytes.all.current": memory_reserved(device),
    }


def empty_cache() -> None:
    """Nothing is cached: memory goes back when its last tensor dies."""


def get_rng_state(device: DeviceLike = "npu") -> torch.Tensor:
    """The device generator's state as a CPU byte tensor."""
    return rng.default_generator(index_of(device)).get_state()


def set_rng_state(new_state: torch.Tensor, device: DeviceLike = "npu") -> None:
    """Continue random numbers from a saved state."""
    rng.default_generator(index_of(device)).set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    """States of all devices."""
    return [get_rng_state(d.index) for d in process.devices]


def set_rng_state_all(new_states: list[torch.Tensor]) -> None:
    """Set the states of all devices."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed: int) -> None:
    """Seed the current device."""
    rng.manual_seed(seed)


def initial_seed() -> int:
    """The seed of the current device."""
    return rng.default_generator(current.device).initial_seed()


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Not simulated; `torch.autocast("npu")` asks for this first.

    Raises:
        NotSimulatedError: AI-DEV-008.
    """
    raise NotSimulatedError(
        "AI-DEV-008",
        "torch.autocast('npu') is not simulated",
        fix="convert the model: model.to(torch.bfloat16)",
    )


def is_bf16_supported() -> bool:
    """True on every SoC of the table."""
    return True


def make_graphed_callables(*args: Any, **kwargs: Any) -> NoReturn:
    """Not simulated.

    Raises:
        NotSimulatedError: AI-DEV-008.
    """
    raise NotSimulatedError(
        "AI-DEV-008",
        "torch.npu.make_graphed_callables is not simulated",
        fix="capture the callable with torch.npu.graph and static inputs",
    )


def _true() -> bool:
    return True


def _false() -> bool:
    return False


def _nothing(*args: object, **kwargs: object) -> None:
    return None


class _NpuModule(types.ModuleType):
    """Names a feature that is missing instead of a bare AttributeError."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(
            f"AI-DEV-008: torch.npu.{name} is not part of the simulated device's torch.npu"
        )


def build() -> types.ModuleType:
    """Make the module object that `enable` installs."""
    module = _NpuModule("torch.npu", "torch.npu of the simulated device")
    public: dict[str, Any] = {
        "Stream": streams.Stream,
        "ExternalStream": streams.ExternalStream,
        "Event": streams.Event,
        "stream": streams.StreamContext,
        "StreamContext": streams.StreamContext,
        "current_stream": streams.current_stream,
        "default_stream": streams.default_stream,
        "synchronize": streams.synchronize,
        "NPUGraph": graph.NPUGraph,
        "graph": graph.graph,
        "graph_pool_handle": graph.graph_pool_handle,
        "is_current_stream_capturing": graph.is_current_stream_capturing,
        "Generator": rng.Generator,
        "manual_seed_all": rng.manual_seed_all,
        "is_initialized": _true,
        "init": _nothing,
        "_lazy_init": _nothing,
        "_is_in_bad_fork": _false,
        "set_compile_mode": _nothing,
        "set_option": _nothing,
        "config": types.SimpleNamespace(allow_internal_format=False),
    }
    own = {
        f.__name__: f
        for f in (
            *(device, is_available, device_count, current_device, set_device, get_device_name),
            *(get_device_properties, get_device_capability, set_stream, memory_allocated),
            *(max_memory_allocated, memory_reserved, reset_peak_memory_stats, mem_get_info),
            *(memory_stats, empty_cache, get_rng_state, set_rng_state, get_rng_state_all),
            *(set_rng_state_all, manual_seed, initial_seed, get_amp_supported_dtype),
            *(is_bf16_supported, make_graphed_callables),
        )
    }
    for name, value in {**public, **own}.items():
        setattr(module, name, value)
    module.__all__ = sorted(n for n in {**public, **own} if not n.startswith("_"))  # type: ignore[attr-defined]
    return module


__all__ = ["DeviceProperties", "build"]
