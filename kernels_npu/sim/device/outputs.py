"""Operations that allocate, resize or rebind memory: `empty`, `out=`, `resize_`, `set_`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from kernels_npu.sim.device import rng
from kernels_npu.sim.device.arguments import Operands
from kernels_npu.sim.device.memory import CPU, block_of, device_index, host, poisoned, wrap
from kernels_npu.sim.device.ordering import Touch, extent, touches
from kernels_npu.sim.device.recording import evaluate_shapes, session_of
from kernels_npu.sim.device.schemas import OpInfo
from kernels_npu.sim.device.state import current

Tensor = torch.Tensor

_aten = torch.ops.aten
_CPU_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
_host_empty = _aten.empty.memory_format._op
_host_copy = _aten.copy_.default._op
_rebind = _aten.set_.source_Storage_storage_offset.redispatch


def allocate(
    shape: Any, stride: Any, dtype: torch.dtype | None, device: torch.device | None
) -> Tensor:
    """Uninitialised device memory; from the graph's pool on a stream that is being captured."""
    index = device_index(device)
    dtype = torch.get_default_dtype() if dtype is None else dtype
    stream = current.streams[index]
    if stream.session is None:
        return wrap(poisoned(shape, stride, dtype), index)
    if stride is None:
        stride = torch.empty(shape, device="meta").stride()
    return session_of(stream).pool.tensor(stream, shape, stride, dtype)


def empty(
    size: Any,
    *,
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
    memory_format: torch.memory_format | None = None,
) -> Tensor:
    """`aten::empty.memory_format`."""
    stride = None
    if memory_format not in (None, torch.contiguous_format):
        stride = torch.empty(size, device="meta", memory_format=memory_format).stride()
    return allocate(size, stride, dtype, device)


def empty_strided(
    size: Any,
    stride: Any,
    *,
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
) -> Tensor:
    """`aten::empty_strided`."""
    return allocate(size, stride, dtype, device)


def zero_tensor(
    size: Any,
    *,
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
) -> Tensor:
    """`aten::_efficientzerotensor`, which derivatives use for zeros: here they take memory."""
    zeros: Tensor = _aten.zeros.default(size, dtype=dtype, device=device)
    return zeros


def rebind(tensor: Tensor, source: Tensor) -> Tensor:
    """Make `tensor` look at the memory of `source`, with its geometry."""
    rebound: Tensor = _rebind(
        _CPU_KEYS,
        tensor,
        source.untyped_storage(),
        source.storage_offset(),
        source.shape,
        source.stride(),
    )
    return rebound


def resize(self: Tensor, size: Any, *, memory_format: Any = None) -> Tensor:
    """`aten::resize_`; growing moves this tensor to new memory, its views stay where they are."""
    shape = tuple(size)
    stride = torch.empty(shape, device="meta").stride()
    needed = self.storage_offset() + sum((n - 1) * s for n, s in zip(shape, stride)) + 1
    if 0 in shape or needed * self.element_size() <= self.untyped_storage().nbytes():
        geometry = (self.storage_offset(), shape, stride)
        resized: Tensor = _rebind(_CPU_KEYS, self, self.untyped_storage(), *geometry)
        return resized
    grown = allocate(shape, stride, self.dtype, self.device)
    if block_of(self).nbytes:
        old = block_of(self).bytes()[self.storage_offset() * self.element_size() :]
        block_of(grown).bytes()[: len(old)] = old
    return rebind(self, grown)


def set_empty(self: Tensor) -> Tensor:
    """`aten::set_` without a source: no memory."""
    return rebind(self, allocate((0,), None, self.dtype, self.device))


def _redispatched(op: Any) -> Callable[..., Any]:
    return partial(op.redispatch, _CPU_KEYS)


def out_variant(info: OpInfo) -> Callable[..., Any]:
    """Writes its results into given tensors, which grow when they are too small.

    The CPU kernel computes into temporaries: were it to resize an alias, the memory under the npu
    tensor would move.
    """
    call = info.host_call
    name = info.name
    outputs = info.outputs
    random = rng.runner(info) if info.generator else None

    def kernel(*args: Any, **kwargs: Any) -> Any:
        from kernels_npu.sim.device.dispatch import refuse_strangers, submit

        operands = Operands(name)
        host_args = [operands.convert(a) for a in args]
        given = [kwargs.pop(n) for n in outputs]
        kwargs = {k: operands.convert(v) for k, v in kwargs.items()}
        reads = len(operands.blocks)
        operands.convert([t for t in given if isinstance(t, Tensor)])
        refuse_strangers(operands)
        stream = current.streams[operands.index]
        temporaries = [_host_empty([0], dtype=t.dtype, device=CPU) for t in given]
        if stream.session is not None:
            return _record(info, operands, reads, host_args, kwargs, given)
        written = ((1 << len(operands.blocks)) - 1) & ~((1 << reads) - 1)
        seq = submit(stream, operands, written, name)
        run = call if random is None else random(operands.index)
        run(*host_args, **kwargs, **dict(zip(outputs, temporaries)))
        for tensor, value in zip(given, temporaries):
            if tensor.shape == value.shape:
                _host_copy(host(tensor), value)
            else:
                rebind(tensor, wrap(value, operands.index, seq, name))
        return given[0] if len(given) == 1 else tuple(given)

    return kernel


def _record(
    info: OpInfo,
    operands: Operands,
    reads: int,
    args: list[Any],
    kwargs: dict[str, Any],
    given: list[Tensor],
) -> Any:
    stream = current.streams[operands.index]
    session = session_of(stream)
    metas = {n: torch.empty(0, dtype=t.dtype, device="meta") for n, t in zip(info.outputs, given)}
    shapes = evaluate_shapes(info, operands, args, {**kwargs, **metas})
    for tensor, shape in zip(given, [shapes] if isinstance(shapes, Tensor) else shapes):
        if tensor.shape != shape.shape:
            rebind(tensor, session.pool.tensor(stream, shape.shape, shape.stride(), tensor.dtype))
    hosts = dict(zip(info.outputs, (host(t) for t in given)))
    accessed = touches(operands.blocks[:reads], operands.hosts[:reads], 0)
    accessed += [Touch(block_of(t), *extent(t), True) for t in given]
    session.record(stream, partial(info.host_call, *args, **kwargs, **hosts), info.name, accessed)
    return given[0] if len(given) == 1 else tuple(given)


KERNELS: dict[str, Callable[..., Any]] = {
    "empty.memory_format": empty,
    "empty_strided": empty_strided,
    "_efficientzerotensor": zero_tensor,
    "resize_": resize,
    "set_": set_empty,
    "set_.source_Storage": _redispatched(_aten.set_.source_Storage),
    "set_.source_Storage_storage_offset": _redispatched(_aten.set_.source_Storage_storage_offset),
    "set_.source_Tensor": _redispatched(_aten.set_.source_Tensor),
}
