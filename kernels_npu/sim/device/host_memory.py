"""Kernels on CPU tensors, in their memory: for a process that cannot have the device `npu`.

A host such as vLLM's CPU platform allocates on the CPU and brings its own stand-ins for streams and
accelerators. There the simulated NPU is a machine without a device: a launch happens at once, and
nothing of torch is changed. Elsewhere a kernel that is given a CPU tensor refuses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from kernels_npu.sim.device.counters import live
from kernels_npu.sim.device.memory import poisoned

if TYPE_CHECKING:
    from kernels_npu.sim.device.launch_plan import LaunchPlan
    from kernels_npu.sim.machine import GmArg

_allowed = False


def allow() -> None:
    """Let kernels of this process take CPU tensors."""
    global _allowed
    _allowed = True


def takes(args: Sequence[Any]) -> bool:
    """Whether a call is one on CPU tensors, and such calls are allowed."""
    return _allowed and any(isinstance(a, torch.Tensor) and a.device.type == "cpu" for a in args)


def launch(kernel: Any, plan: LaunchPlan, args: Sequence[Any]) -> Any:
    """Run `kernel` now; outputs and workspaces start as poison, as on the device.

    Raises:
        LaunchError: AI-TYPE-030 .. 035 for arguments that do not fit.
        HazardError: what the simulated machine found.
    """
    values, _ = plan.check(args, "cpu")
    arguments, result, is_empty = plan.complete(
        values, lambda shape, dtype: poisoned(shape, None, dtype)
    )
    if is_empty:
        live.empty_launches[plan.name] += 1
        return result
    made = list(arguments)
    for position in plan.tensor_positions:
        made[position] = _gm_arg(plan, position, arguments[position])
    live.eager_launches[plan.name] += 1
    plan.execute(kernel, made)
    return result


def _gm_arg(plan: LaunchPlan, position: int, tensor: torch.Tensor) -> GmArg:
    from kernels_npu.sim.machine import GmArg

    storage = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
    return GmArg(
        data=storage.numpy()[tensor.storage_offset() * tensor.element_size() :],
        shape=tuple(tensor.shape),
        dtype=plan.dtypes[position],
        name=plan.names[position],
    )
