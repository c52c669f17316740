"""The module `torch.npu`: the part of torch_npu's API that the simulated device has."""

from __future__ import annotations

import types
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NoReturn

import torch

from kernels_npu.sim.config import current_config
from kernels_npu.sim.device import (
    external_events,
    graph,
    npu_resources,
    streams,
    task_groups,
)
from kernels_npu.sim.device.errors import NotSimulatedError
from kernels_npu.sim.device.state import current, process
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


class device_of(device):
    """`with device_of(tensor):` makes the tensor's device current; the host changes nothing."""

    def __init__(self, obj: torch.Tensor) -> None:
        super().__init__(obj.get_device() if obj.device.type == "npu" else -1)


#: A2 counts from 220, A3 from 250; all chips of A5 have one number.
_SOC_VERSIONS = {
    **{
        f"Ascend910{chip}": 220 + i
        for i, chip in enumerate(("B1", "B2", "B2C", "B3", "B4", "B4-1"))
    },
    **{f"Ascend910_{chip}": 250 + i for i, chip in enumerate((9391, 9392, 9381, 9382, 9372, 9362))},
}
_ASCEND950 = 260


def _soc() -> Soc:
    return get_soc(current_config().soc)


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


def get_device_name(device_name: DeviceLike = None) -> str:
    """The SoC version."""
    index_of(device_name)
    return _soc().name


def get_device_properties(device_name: DeviceLike = None) -> DeviceProperties:
    """Core counts and memory of the simulated SoC."""
    index_of(device_name)
    soc = _soc()
    return DeviceProperties(
        name=soc.name,
        total_memory=soc.memory_bytes,
        cube_core_num=soc.cube_cores,
        vector_core_num=soc.vector_cores,
        L2_cache_size=soc.l2_bytes,
    )


def get_soc_version() -> int:
    """torch_npu's number of the chip (its enumeration SocVersion)."""
    soc = _soc()
    return _SOC_VERSIONS.get(soc.name, _ASCEND950)


def get_device_capability(device: DeviceLike = None) -> None:
    """None, as in torch_npu."""
    index_of(device)


def can_device_access_peer(device_id: DeviceLike, peer_device_id: DeviceLike) -> bool:
    """Whether two different devices copy to each other directly: all simulated ones do."""
    return index_of(device_id) != index_of(peer_device_id)


def set_stream(stream: streams.Stream) -> None:
    """Make `stream` current on its device in this thread."""
    streams.set_stream(stream._state)


class _AutocastDtypes(list[torch.dtype]):
    """`torch.autocast("npu")` asks whether its dtype is among these, unless it is switched off."""

    def __contains__(self, dtype: object) -> bool:
        raise NotSimulatedError(
            "AI-DEV-008",
            "torch.autocast('npu') is not simulated",
            fix="convert the model: model.to(torch.bfloat16)",
        )


def get_amp_supported_dtype() -> list[torch.dtype]:
    """What `torch.autocast("npu")` asks for first; only a disabled autocast gets on from there.

    Asking whether a dtype is among them raises NotSimulatedError, AI-DEV-008.
    """
    return _AutocastDtypes((torch.float16, torch.bfloat16))


def is_bf16_supported(including_emulation: bool = False) -> bool:
    """True on every SoC of the table."""
    return True


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Any = None,
) -> NoReturn:
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


def init() -> None:
    """The simulated device needs no initialisation."""


def set_compile_mode(jit_compile: bool = False) -> None:
    """Without effect: nothing of torch_npu is compiled."""


def set_option(option: dict[str, Any]) -> None:
    """Without effect: the options are CANN's."""


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
        "stream": streams.stream,
        "StreamContext": streams.StreamContext,
        "current_stream": streams.current_stream,
        "default_stream": streams.default_stream,
        "synchronize": streams.synchronize,
        "NPUGraph": graph.NPUGraph,
        "graph": graph.graph,
        "graph_pool_handle": graph.graph_pool_handle,
        "is_current_stream_capturing": graph.is_current_stream_capturing,
        "graph_task_group_begin": task_groups.graph_task_group_begin,
        "graph_task_group_end": task_groups.graph_task_group_end,
        "graph_task_update_begin": task_groups.graph_task_update_begin,
        "graph_task_update_end": task_groups.graph_task_update_end,
        "ExternalEvent": external_events.ExternalEvent,
        "is_initialized": _true,
        "_lazy_init": init,
        "_is_in_bad_fork": _false,
        "config": types.SimpleNamespace(allow_internal_format=False),
    }
    own = {
        f.__name__: f
        for f in (
            *(device, device_of, is_available, device_count, current_device, set_device),
            *(get_device_name, get_device_properties, get_device_capability, set_stream),
            *(can_device_access_peer, get_amp_supported_dtype, is_bf16_supported),
            *(make_graphed_callables, init, set_compile_mode, set_option),
        )
    }
    members = {**public, **npu_resources.FUNCTIONS, **own}
    for name, value in members.items():
        setattr(module, name, value)
    module.__all__ = sorted(n for n in members if not n.startswith("_"))  # type: ignore[attr-defined]
    return module


__all__ = ["DeviceProperties", "build"]
