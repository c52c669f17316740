"""Compiled kernels called with npu tensors: checks, dimensions, allocation, launch or record."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

import torch

from kernels_npu.sim.device import host_memory
from kernels_npu.sim.device.counters import live
from kernels_npu.sim.device.errors import StreamOrderError
from kernels_npu.sim.device.launch_plan import LaunchPlan
from kernels_npu.sim.device.memory import Block, block_of, empty
from kernels_npu.sim.device.ordering import Touch, enqueue, extent
from kernels_npu.sim.device.stalls import refuse_behind
from kernels_npu.sim.device.state import StreamState, current, drain, process
from kernels_npu.sim.device.streams import Stream, find_by_handle

if TYPE_CHECKING:
    from kernels_npu.sim import ir


class Kernel(Protocol):
    """What a launch needs of `tilelang`'s JITKernel."""

    @property
    def prim_func(self) -> ir.PrimFunc: ...

    @property
    def out_idx(self) -> Sequence[int]: ...

    @property
    def workspace_idx(self) -> Sequence[int]: ...

    @property
    def compiled(self) -> Any: ...


_plans: WeakKeyDictionary[Any, LaunchPlan] = WeakKeyDictionary()


def plan_of(kernel: Kernel) -> LaunchPlan:
    """How to call `kernel`; made once. Lowering may have enlarged its workspaces."""
    plan = _plans.get(kernel)
    if plan is None:
        from kernels_npu.sim.machine.outputs import unwritten_outputs

        func = kernel.compiled.func  # has the automatic workspaces behind the user's parameters
        automatic = range(len(kernel.prim_func.params), len(func.params))
        workspaces = (*kernel.workspace_idx, *automatic)
        noted = tuple(unwritten_outputs(kernel.compiled.lowered, kernel.out_idx, workspaces))
        plan = _plans[kernel] = LaunchPlan(func, kernel.out_idx, workspaces, noted)
        live.compilations += 1
    return plan


def call_jit_kernel(kernel: Kernel, args: Sequence[Any], stream: Any = None) -> Any:
    """Launch `kernel`, or record the launch on a stream that is being captured.

    Args:
        kernel: its inputs are the parameters that are neither in `out_idx` nor in `workspace_idx`.
        args: one value per input, in order; more are ignored, as the adapter does.
        stream: a raw handle or `torch.npu.Stream`; None is the current stream, read right here.

    Returns:
        The output tensor; a list for several; `[]` for a kernel that works in place. Outputs and
        workspaces are allocated here and start as poison.

    Raises:
        LaunchError: AI-TYPE-030 .. 035 for arguments that do not fit.
        StreamOrderError: AI-STREAM-001, 002, 004.
        HazardError: what the simulated machine found, unless a capture is in progress.
    """
    with torch._C.DisableTorchFunction():
        if host_memory.takes(args):
            return host_memory.launch(kernel, plan_of(kernel), args)
        return _call(kernel, args, stream)


def _call(kernel: Kernel, args: Sequence[Any], stream: Any) -> Any:
    plan = plan_of(kernel)
    values, index = plan.check(args)
    state = current.streams[index] if stream is None else _explicit_stream(stream)
    if stream is None:
        drain(state.device)
    arguments, result, is_empty = plan.complete(values, partial(_allocate, state))
    if is_empty:
        live.empty_launches[plan.name] += 1
        return result
    tensors = [(p, arguments[p]) for p in plan.tensor_positions]
    blocks = [block_of(t) for _, t in tensors]
    if stream is not None:
        _refuse_overtaking(plan, state, blocks)
    launch = partial(plan.execute, kernel, _gm_args(plan, arguments, blocks))
    if state.session is not None:
        state.session.record(
            state, launch, plan.name, _touches(plan, tensors, blocks), kind="kernel"
        )
        return result
    _take_place(plan, state, tensors, blocks)
    live.eager_launches[plan.name] += 1
    launch()
    return result


def _allocate(state: StreamState, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    if state.session is None:
        return empty(shape, dtype, state.device.index)
    strides = [1] * len(shape)
    for i in range(len(shape) - 1, 0, -1):
        strides[i - 1] = strides[i] * max(shape[i], 1)
    return state.session.pool.tensor(state, shape, strides, dtype)


def _gm_args(plan: LaunchPlan, arguments: list[Any], blocks: list[Block]) -> list[Any]:
    from kernels_npu.sim.machine import GmArg

    made = list(arguments)
    for position, block in zip(plan.tensor_positions, blocks):
        tensor = arguments[position]
        start = tensor.storage_offset() * tensor.element_size()
        made[position] = GmArg(
            data=block.bytes()[start:],
            shape=tuple(tensor.shape),
            dtype=plan.dtypes[position],
            name=plan.names[position],
        )
    return made


def _touches(
    plan: LaunchPlan, tensors: list[tuple[int, torch.Tensor]], blocks: list[Block]
) -> list[Touch]:
    return [
        Touch(block, *extent(tensor), position in plan.written)
        for (position, tensor), block in zip(tensors, blocks)
    ]


def _take_place(
    plan: LaunchPlan,
    state: StreamState,
    tensors: list[tuple[int, torch.Tensor]],
    blocks: list[Block],
) -> None:
    if state.stalled is not None:
        refuse_behind(state, plan.name)
    if not state.device.single_stream or state is not state.device.default_stream:
        state.device.single_stream = False
        enqueue(state, _touches(plan, tensors, blocks), plan.name)
        return
    state.seq = seq = state.seq + 1
    for (position, _), block in zip(tensors, blocks):
        if position in plan.written:
            block.write = seq
            block.writer = plan.name
        else:
            block.read = seq


def _explicit_stream(stream: Any) -> StreamState:
    if isinstance(stream, Stream):
        return stream._state
    found = find_by_handle(stream) if isinstance(stream, int) else None
    if found is None:
        raise StreamOrderError(
            "AI-STREAM-004",
            f"stream={stream!r} is not the handle of a stream of this process",
            rule="a raw handle is torch.npu.current_stream().npu_stream; it is never 0",
            fix="leave stream out, or pass torch.npu.current_stream().npu_stream",
        )
    return found


def _refuse_overtaking(plan: LaunchPlan, state: StreamState, blocks: list[Block]) -> None:
    """torch operations wait in a host queue; a launch on a handle read earlier goes past them."""
    device = state.device
    if os.environ.get("TASK_QUEUE_ENABLE") == "0" or process.settings.stream_order == "off":
        return
    for position, block in zip(plan.tensor_positions, blocks):
        if block.queued > device.drained:
            raise StreamOrderError(
                "AI-STREAM-002",
                f"{plan.name}(stream={state.handle:#x}): {plan.names[position]} is used by a torch "
                f"operation ({block.writer}) that was queued after the handle had been read",
                rule="torch_npu queues operations on the host and hands them over when "
                "npu_stream is read; a launch on an older handle runs before them",
                fix="read torch.npu.current_stream().npu_stream right before the launch, "
                "or leave stream out",
            )
