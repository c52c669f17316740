"""The PrivateUse1 kernels: every leaf operation of aten runs on the CPU aliases of its operands.

One closure per operation is registered with `torch.library`. A closure converts operands to CPU
aliases, notes the accesses for stream order, runs PyTorch's CPU kernel and wraps the results. On
a stream that is being captured it records instead (`recording`). Custom operations are not
touched: one that has no npu implementation fails in PyTorch's usual way instead of silently
running on the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from kernels_npu.sim.device import recording, rng, spilling
from kernels_npu.sim.device.arguments import Operands, mixed_devices
from kernels_npu.sim.device.capture import COPY_CALL, WAIT_CALL, forbid, forbid_pageable
from kernels_npu.sim.device.counters import live
from kernels_npu.sim.device.memory import CPU, device_index, wrap
from kernels_npu.sim.device.ordering import enqueue, host_waits_for, stream_clock, touches
from kernels_npu.sim.device.schemas import Kind, OpInfo, leaf_operations
from kernels_npu.sim.device.stalls import refuse_behind
from kernels_npu.sim.device.state import StreamState, current, drain

Tensor = torch.Tensor
Kernel = Callable[..., Any]

_CPU_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
_new_library: Any = torch.library.Library
_libraries: list[Any] = []


def submit(stream: StreamState, operands: Operands, written: int, op: str) -> int:
    """Give an operation its place on `stream`; bit i of `written` marks operand i as written."""
    blocks = operands.blocks
    live.eager_ops[op] += 1
    if stream.stalled is not None:
        refuse_behind(stream, op)
    device = stream.device
    device.queued = queued = device.queued + 1
    for block in blocks:
        block.queued = queued
    if not device.single_stream:
        seq = enqueue(stream, touches(blocks, operands.hosts, written), op)
    else:
        stream.seq = seq = stream.seq + 1
    for i, block in enumerate(blocks):
        if written >> i & 1:
            block.write = seq
            block.writer = op
        else:
            block.read = seq
    return seq


def synchronize(stream: StreamState, call: str) -> None:
    """The host waits for `stream`, as `.item()` and blocking copies do."""
    forbid(call)
    host_waits_for(stream_clock(stream))
    drain(stream.device)


def refuse_strangers(operands: Operands) -> None:
    """Refuse CPU tensors that are not scalars."""
    if operands.strangers:
        raise mixed_devices(operands.op, f"npu:{max(operands.index, 0)}", "cpu")


def _copy_strangers(operands: Operands) -> None:
    """Index tensors may come from the host; they are copied, which capture forbids."""
    forbid_pageable(COPY_CALL)


def _stranger_rule(info: OpInfo) -> Callable[[Operands], None]:
    return _copy_strangers if info.host_indices else refuse_strangers


def wrap_all(result: Any, index: int, seq: int, op: str) -> Any:
    """npu tensors for the CPU tensors in an operation's result."""
    if isinstance(result, Tensor):
        return wrap(result, index, seq, op)
    if type(result) in (tuple, list):
        return type(result)(wrap_all(r, index, seq, op) for r in result)
    return result


def _selects_by_mask(indices: Any) -> bool:
    return any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in indices)


def functional(info: OpInfo) -> Kernel:
    """Reads its operands and returns new tensors."""
    call = info.host_call
    refuse_strangers = _stranger_rule(info)
    masks = info.name == "index.Tensor"
    name = info.name
    waits = info.waits
    random = rng.runner(info) if info.random else None

    def kernel(*args: Any, **kwargs: Any) -> Any:
        operands = Operands(name)
        convert = operands.convert
        host_args = [convert(a) for a in args]
        target = None
        if kwargs:
            target = kwargs.pop("device", None)
            kwargs = {k: convert(v) for k, v in kwargs.items()}
            if target is not None:
                kwargs["device"] = CPU
                kwargs.pop("pin_memory", None)
        if operands.strangers:
            refuse_strangers(operands)
        if masks and _selects_by_mask(host_args[1]):
            synchronize(current.streams[operands.index], WAIT_CALL)
        index = operands.index
        stream = current.streams[index]
        if stream.session is not None:
            if waits:
                forbid(WAIT_CALL)
            return recording.functional(stream, info, operands, host_args, kwargs, random)
        if waits:
            synchronize(stream, WAIT_CALL)
        seq = submit(stream, operands, 0, name)
        run = call if random is None else random(index)
        if operands.large and random is None:
            run = spilling.call_for(info, operands, host_args, kwargs)
        result = run(*host_args, **kwargs)
        if target is not None:
            if target.type == "cpu":
                return result
            index = device_index(target)
        if isinstance(result, Tensor):
            return wrap(result, index, seq, name)
        return wrap_all(result, index, seq, name)

    return kernel


def factory(info: OpInfo) -> Kernel:
    """Makes tensors out of numbers only."""
    call = info.host_call
    name = info.name
    random = rng.runner(info) if info.random else None

    def kernel(*args: Any, **kwargs: Any) -> Any:
        index = device_index(kwargs.get("device"))
        kwargs["device"] = CPU
        kwargs.pop("pin_memory", None)
        operands = Operands(name)
        operands.index = index
        stream = current.streams[index]
        if stream.session is not None:
            return recording.functional(stream, info, operands, list(args), kwargs, random)
        seq = submit(stream, operands, 0, name)
        run = call if random is None else random(index)
        return wrap_all(run(*args, **kwargs), index, seq, name)

    return kernel


def inplace(info: OpInfo) -> Kernel:
    """Writes some of its operands, and returns those or else new tensors."""
    call = info.host_call
    name = info.name
    written = info.written
    random = rng.runner(info) if info.random else None
    returned = _returned_arguments(info)
    makes_new = bool(info.op._schema.returns) and not returned
    strangers = _stranger_rule(info)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        operands = Operands(name)
        convert = operands.convert
        host_args = []
        bits = 0
        for i, argument in enumerate(args):
            before = len(operands.blocks)
            host_args.append(convert(argument))
            if i in written:
                bits |= (1 << len(operands.blocks)) - (1 << before)
        if kwargs:
            kwargs = {k: convert(v) for k, v in kwargs.items()}
        if not bits:
            raise mixed_devices(name, f"npu:{max(operands.index, 0)}", "cpu")
        if operands.strangers:
            strangers(operands)
        stream = current.streams[operands.index]
        if stream.session is not None:
            if makes_new:
                return recording.functional(
                    stream, info, operands, host_args, kwargs, random, written=bits
                )
            recording.inplace(stream, info, operands, bits, host_args, kwargs, random)
        else:
            seq = submit(stream, operands, bits, name)
            run = call if random is None else random(operands.index)
            result = run(*host_args, **kwargs)
            if makes_new:
                return wrap_all(result, operands.index, seq, name)
        if len(returned) == 1:
            return args[returned[0]]
        return tuple(args[i] for i in returned) if returned else None

    return kernel


def _returned_arguments(info: OpInfo) -> tuple[int, ...]:
    """Which positional argument each return value is, by alias set."""
    schema = info.op._schema
    sets = {
        frozenset(a.alias_info.before_set): i
        for i, a in enumerate(schema.arguments)
        if a.alias_info and a.alias_info.is_write
    }
    return tuple(
        sets[frozenset(r.alias_info.before_set)] for r in schema.returns if r.alias_info is not None
    )


def view(info: OpInfo) -> Kernel:
    """Another geometry, same storage: PyTorch's CPU kernel needs no data and keeps the device."""
    redispatch = info.op.redispatch

    def kernel(*args: Any, **kwargs: Any) -> Any:
        return redispatch(_CPU_KEYS, *args, **kwargs)

    return kernel


def register() -> None:
    """Register all kernels; called once by `enable`."""
    from kernels_npu.sim.device import copies, outputs, pinned

    library: Any = _new_library("aten", "IMPL")
    _libraries.append(library)
    builders: dict[Kind, Callable[[OpInfo], Kernel]] = {
        Kind.FUNCTIONAL: functional,
        Kind.FACTORY: factory,
        Kind.INPLACE: inplace,
        Kind.OUT: outputs.out_variant,
        Kind.VIEW: view,
    }
    special = {**copies.KERNELS, **outputs.KERNELS}
    for info in leaf_operations():
        if info.name not in special:
            library.impl(info.name, builders[info.kind](info), "PrivateUse1")
    for name, kernel in special.items():
        library.impl(name, kernel, "PrivateUse1")
    for name, kernel in pinned.HOST_KERNELS.items():
        library.impl(name, kernel, "CPU")
