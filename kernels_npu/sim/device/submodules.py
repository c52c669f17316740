"""Submodules of torch_npu that scripts and serving hosts import, with the members that exist."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from kernels_npu.sim.device import npu_module, npu_resources
from kernels_npu.sim.device.collectives import ProcessGroupHCCL
from kernels_npu.sim.device.errors import NotSimulatedError
from kernels_npu.sim.device.graph import NPUGraph
from kernels_npu.sim.device.memory import weak_reference
from kernels_npu.sim.device.task_groups import _NPUTaskGroupHandle


def register_atb_extensions() -> None:
    """Nothing to load: the operators of ATB are registered with the device."""


def _refusing(name: str, fix: str) -> type:
    """A class that can be named in annotations and not be made."""

    def refuse(self: object, *args: object, **kwargs: object) -> NoReturn:
        raise NotSimulatedError("AI-DEV-008", f"{name} is not simulated", fix=fix)

    return type(name.rpartition(".")[2], (), {"__init__": refuse})


_ALLOCATORS = "leave the device's own allocator in place; vLLM: without sleep mode"
SUBMODULES: Mapping[str, Mapping[str, Any]] = {
    "torch_npu._C": {
        "_weak_ref_tensor": weak_reference,
        "_NPUTaskGroupHandle": _NPUTaskGroupHandle,
        "_NPUGraph": NPUGraph,
    },
    "torch_npu._C._distributed_c10d": {"ProcessGroupHCCL": ProcessGroupHCCL},
    "torch_npu.npu._backends": {"get_soc_version": npu_module.get_soc_version},
    "torch_npu.npu.memory": {
        **npu_resources.MEMORY_FUNCTIONS,
        "NPUPluggableAllocator": _refusing("torch.npu.memory.NPUPluggableAllocator", _ALLOCATORS),
        "MemPool": _refusing("torch.npu.memory.MemPool", _ALLOCATORS),
    },
    "torch_npu.op_plugin": {},
    "torch_npu.op_plugin.atb": {},
    "torch_npu.op_plugin.atb._atb_ops": {"_register_atb_extensions": register_atb_extensions},
    "torch_npu.profiler": {},
    "torch_npu.profiler.dynamic_profile": {},
}
