"""Copies between host and device, and the reads that make the host wait."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from kernels_npu.sim.device.arguments import Operands
from kernels_npu.sim.device.capture import COPY_CALL, WAIT_CALL, forbid, forbid_pageable
from kernels_npu.sim.device.in_flight import depart
from kernels_npu.sim.device.memory import CPU, device_index, wrap
from kernels_npu.sim.device.ordering import join, stream_clock, touches
from kernels_npu.sim.device.pinned import is_pinned
from kernels_npu.sim.device.recording import functional, session_of
from kernels_npu.sim.device.schemas import describe
from kernels_npu.sim.device.state import StreamState, current

Tensor = torch.Tensor

_aten = torch.ops.aten
_host_to_copy = _aten._to_copy.default._op
_copy = _aten.copy_.default._op
_host_item = _aten._local_scalar_dense.default._op
_TO_COPY = describe(_aten._to_copy.default, "aten::_to_copy")


def _host_copy(target: Tensor, source: Tensor) -> Tensor:
    """`target.copy_(source)`, also between views of the same bytes, which a CPU refuses."""
    if target.untyped_storage().data_ptr() == source.untyped_storage().data_ptr():
        source = source.clone()
    copied: Tensor = _copy(target, source)
    return copied


def to_copy(self: Tensor, **kwargs: Any) -> Tensor:
    """`aten::_to_copy` from or to npu: another dtype, layout or device, the host included."""
    from kernels_npu.sim.device.dispatch import submit, synchronize

    operands = Operands("_to_copy")
    target = kwargs.pop("device", None)
    kwargs.pop("pin_memory", None)
    kwargs["device"] = CPU
    if self.device.type == "cpu":
        return _from_host(self, device_index(target), operands, kwargs)
    source = operands.convert(self)
    stream = current.streams[operands.index]
    if target is not None and target.type != "npu":
        if target.type != "cpu":
            raise NotImplementedError(f"copy from {self.device} to {target}")
        if stream.session is not None:
            forbid(WAIT_CALL)
        submit(stream, operands, 0, "copy to host")
        if not kwargs.get("non_blocking"):
            synchronize(stream, WAIT_CALL)
        result: Tensor = _host_to_copy(source, **kwargs)
        return result
    index = operands.index if target is None else device_index(target)
    if stream.session is not None:
        copied: Tensor = functional(stream, _TO_COPY, operands, [source], kwargs, None)
        return copied
    if index != operands.index:
        _meet(stream, current.streams[index])
    seq = submit(stream, operands, 0, "_to_copy")
    return wrap(_host_to_copy(source, **kwargs), index, seq, "_to_copy")


def _from_host(self: Tensor, index: int, operands: Operands, kwargs: dict[str, Any]) -> Tensor:
    from kernels_npu.sim.device.dispatch import submit, synchronize

    stream = current.streams[index]
    non_blocking = kwargs.get("non_blocking", False)
    if stream.session is not None:
        if not (non_blocking and is_pinned(self)):
            forbid_pageable(COPY_CALL)
        session_of(stream).host_sources.append(self)
        recorded: Tensor = functional(stream, _TO_COPY, operands, [self], kwargs, None)
        return recorded
    seq = submit(stream, operands, 0, "copy from host")
    copied = wrap(_host_to_copy(self, **kwargs), index, seq, "copy from host")
    if non_blocking:
        depart(stream, seq, self)
    else:
        synchronize(stream, WAIT_CALL)
    return copied


def copy_into(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """`aten::copy_` with an npu tensor on either side or both."""
    from kernels_npu.sim.device.dispatch import submit, synchronize

    from_host, to_host = src.device.type == "cpu", self.device.type == "cpu"
    operands = Operands("copy_")
    target = self if to_host else operands.convert(self)
    operands.index = -1  # copies between devices are fine
    source = src if from_host else operands.convert(src)
    written = 0 if to_host else 1
    stream = current.streams[(src if to_host else self).get_device()]
    crossing = from_host or to_host
    if stream.session is not None:
        host_side = src if from_host else self
        if crossing and not (non_blocking and is_pinned(host_side)):
            if to_host and not non_blocking:
                forbid(WAIT_CALL)
            forbid_pageable(COPY_CALL)
        if self.shape != src.shape:
            torch.empty(src.shape, device="meta").expand(self.shape)  # raises when it does not fit
        session = session_of(stream)
        if from_host:
            session.host_sources.append(src)
        session.record(
            stream,
            partial(_host_copy, target, source),
            "copy_",
            touches(operands.blocks, operands.hosts, written),
            kind="copy" if crossing else "op",
        )
        return self
    if not crossing and src.get_device() != self.get_device():
        _meet(stream, current.streams[src.get_device()])
    seq = submit(stream, operands, written, "copy_")
    if crossing and not non_blocking:
        synchronize(stream, WAIT_CALL)
    elif from_host:
        depart(stream, seq, src)
    _host_copy(target, source)
    return self


def local_scalar_dense(self: Tensor) -> Any:
    """`.item()`: the host waits for the stream and reads one element."""
    from kernels_npu.sim.device.dispatch import submit, synchronize

    operands = Operands("_local_scalar_dense")
    source = operands.convert(self)
    stream = current.streams[operands.index]
    forbid(WAIT_CALL)
    submit(stream, operands, 0, "item")
    synchronize(stream, WAIT_CALL)
    return _host_item(source)


def copy_from(self: Tensor, dst: Tensor, non_blocking: bool = False) -> Tensor:
    """`aten::_copy_from`: `copy_` with the arguments the other way round."""
    return copy_into(dst, self, non_blocking)


def _meet(stream: StreamState, other: StreamState) -> None:
    """PyTorch orders a copy between devices against the current streams of both."""
    join(stream.known, stream_clock(other))
    other.known[stream.uid] = stream.seq + 1
    stream.device.single_stream = other.device.single_stream = False


def record_stream(self: Tensor, s: torch.Stream) -> None:
    """`aten::record_stream`: nothing to do, no memory is reused while a stream may touch it."""


KERNELS = {
    "record_stream": record_stream,
    "_to_copy": to_copy,
    "copy_": copy_into,
    "_copy_from": copy_from,
    "_local_scalar_dense": local_scalar_dense,
}
