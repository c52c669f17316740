"""The back end "hccl" of torch.distributed: gloo on the memory of the simulated devices.

Every rank is a process with simulated devices of its own. A collective is an operation of the
current stream that writes its outputs in place; a capture records it and each replay communicates
again, so that all ranks have to replay the same graphs.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Store

from kernels_npu.sim.device.arguments import Operands
from kernels_npu.sim.device.dispatch import refuse_strangers, submit
from kernels_npu.sim.device.ordering import touches
from kernels_npu.sim.device.recording import session_of
from kernels_npu.sim.device.state import current

#: Methods of a process group that take tensors -> how many of the first arguments they write.
_WRITING = {
    "allreduce": 1,
    "allgather": 1,
    "_allgather_base": 1,
    "alltoall": 1,
    "alltoall_base": 1,
    "broadcast": 1,
    "gather": 1,
    "recv": 1,
    "reduce": 1,
    "reduce_scatter": 1,
    "_reduce_scatter_base": 1,
    "scatter": 1,
    "send": 0,
}
#: The name by which torch.distributed calls a process group since 2.13 -> the one of back ends.
_RENAMED = {
    "all_gather_single": "_allgather_base",
    "all_to_all_single": "alltoall_base",
    "reduce_scatter_single": "_reduce_scatter_base",
}


class _Options:
    """`ProcessGroupHCCL.Options`: what hosts set and read; none of it changes a simulation."""

    def __init__(self, is_high_priority_stream: bool = False) -> None:
        self.is_high_priority_stream = is_high_priority_stream
        self.hccl_config: dict[str, Any] = {}
        self.op_timeout = datetime.timedelta(minutes=30)
        self.group_name = ""
        self.global_ranks_in_group: list[int] = []


class ProcessGroupHCCL(dist.ProcessGroup):
    """A process group whose tensors are on npu."""

    Options = _Options

    def __init__(
        self, store: Store, rank: int, size: int, timeout: datetime.timedelta | None = None
    ) -> None:
        super().__init__(rank, size)  # type: ignore[call-arg]
        self._name = ""
        self._gloo: Any = dist.ProcessGroupGloo(
            store, rank, size, timeout or datetime.timedelta(minutes=30)
        )

    def getBackendName(self) -> str:
        """The name under which torch.distributed knows it."""
        return "hccl"

    def _set_group_name(self, name: str) -> None:
        # PyTorch's own keeps the name with a back end written in C++, and there is none.
        self._name = name

    @property
    def group_name(self) -> Any:
        """Its name in torch.distributed."""
        return self._name

    def barrier(self, *args: Any, **options: Any) -> Any:
        """Wait for all ranks; work of the device needs no waiting, because calls are in order."""
        self._gloo.barrier().wait()
        return _done(None)


def _method(name: str, written: int) -> Callable[..., Any]:
    def collective(self: ProcessGroupHCCL, *args: Any, **kwargs: Any) -> Any:
        operands = Operands(f"hccl.{name}")
        aliases: list[Any] = []
        bits = 0
        for i, argument in enumerate(args):
            aliases.append(_convert(operands, argument))
            if i < written:
                bits = (1 << len(operands.blocks)) - 1
        if operands.strangers or not operands.blocks:
            refuse_strangers(operands)
        stream = current.streams[operands.index]
        run = partial(_communicate, getattr(self._gloo, name), aliases, kwargs)
        if stream.session is None:
            submit(stream, operands, bits, operands.op)
            run()
        else:
            accessed = touches(operands.blocks, operands.hosts, bits)
            session_of(stream).record(stream, run, operands.op, accessed)
        return _done(args[0])

    collective.__name__ = name
    collective.__doc__ = f"`{name}` of `torch.distributed.ProcessGroup` on npu tensors."
    return collective


def _convert(operands: Operands, value: Any) -> Any:
    """`value` with host aliases for the tensors in it, also in lists of lists."""
    if type(value) is list:
        return [_convert(operands, v) for v in value]
    return operands.convert(value)


def _communicate(method: Callable[..., Any], args: list[Any], options: dict[str, Any]) -> None:
    method(*args, **options).wait()


def _done(result: Any) -> Any:
    """A `Work` that is finished."""
    future: Any = torch.futures.Future()
    future.set_result(result)
    bindings: Any = torch._C._distributed_c10d
    return bindings._create_work_from_future(future)


for _name, _count in _WRITING.items():
    setattr(ProcessGroupHCCL, _name, _method(_name, _count))
for _newer, _name in _RENAMED.items():
    setattr(ProcessGroupHCCL, _newer, getattr(ProcessGroupHCCL, _name))


def _create(options: Any, pg_options: Any = None) -> ProcessGroupHCCL:
    return ProcessGroupHCCL(options.store, options.group_rank, options.group_size, options.timeout)


def _is_hccl_available() -> bool:
    return True


def install() -> None:
    """Give torch.distributed the back end and `is_hccl_available`."""
    dist.Backend.register_backend("hccl", _create, extended_api=True, devices=["npu"])
    dist.is_hccl_available = _is_hccl_available  # type: ignore[attr-defined]
