"""Recording PyTorch operations: shapes without values, fixed outputs, prebound calls for replay."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import torch

from kernels_npu.sim.device import host_calls
from kernels_npu.sim.device.arguments import Operands
from kernels_npu.sim.device.capture import CaptureSession
from kernels_npu.sim.device.errors import CaptureError
from kernels_npu.sim.device.memory import block_of, host
from kernels_npu.sim.device.ordering import Touch, extent, touches
from kernels_npu.sim.device.schemas import OpInfo, out_overload
from kernels_npu.sim.device.state import StreamState

Tensor = torch.Tensor
RandomRunner = Callable[[int], Callable[..., Any]]

_META = torch.device("meta")
_empty_strided = torch.ops.aten.empty_strided.default._op
_copy = torch.ops.aten.copy_.default._op
_cached_out_overload = cache(out_overload)


def session_of(stream: StreamState) -> CaptureSession:
    """The capture that `stream` is part of, still valid."""
    session = stream.session
    if session is None:
        raise RuntimeError("recording on a stream that is not captured")
    session.check()
    return session


def functional(
    stream: StreamState,
    info: OpInfo,
    operands: Operands,
    args: list[Any],
    kwargs: dict[str, Any],
    random: RandomRunner | None,
    *,
    written: int = 0,
) -> Any:
    """Record an operation that returns new tensors; they are poison until the graph is replayed.

    Bit i of `written` says that it writes operand i as well.
    """
    session = session_of(stream)
    shapes = evaluate_shapes(info, operands, args, kwargs)
    flat: list[Tensor | None] = []
    result = _allocate(session, stream, shapes, flat)
    outputs = [t for t in flat if t is not None]
    hosts = [host(t) for t in outputs]
    if random is not None:
        run = _copying(random(session.pool.device.index), args, kwargs, hosts)
    else:
        plain = not written and len(outputs) == len(flat)
        found = _cached_out_overload(info.op) if plain else None
        if found is None or len(found[1]) != len(outputs):
            run = _copying(info.host_call, args, kwargs, hosts)
        else:
            op, names = found
            accepted = {a.name for a in op._schema.arguments}
            kept = {k: v for k, v in kwargs.items() if k in accepted}
            run = partial(host_calls.host_call(op), *args, **kept, **dict(zip(names, hosts)))
    accessed = touches(operands.blocks, operands.hosts, written)
    accessed += [Touch(block_of(t), *extent(t), True) for t in outputs]
    session.record(stream, run, info.name, accessed)
    return result


def inplace(
    stream: StreamState,
    info: OpInfo,
    operands: Operands,
    written: int,
    args: list[Any],
    kwargs: Mapping[str, Any],
    random: RandomRunner | None,
) -> None:
    """Record an operation that writes operands; nothing changes until the graph is replayed.

    Operands that do not fit are refused here, as the device's own shape checks do, not at replay.
    """
    session = session_of(stream)
    with contextlib.suppress(
        CaptureError
    ):  # without a shape function the operands are taken as they are
        evaluate_shapes(info, operands, args, kwargs)
    call = info.host_call if random is None else random(session.pool.device.index)
    accessed = touches(operands.blocks, operands.hosts, written)
    session.record(stream, partial(call, *args, **kwargs), info.name, accessed)


def _copying(
    call: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], targets: list[Tensor]
) -> Callable[[], None]:
    """For operations without a reliable `out=` form: compute, then copy into the fixed outputs.

    The shape function speaks for the device, whose kernels also return statistics, of other shapes
    than the CPU's; those stay poison. The result proper is the first output.
    """

    def run() -> None:
        result = call(*args, **kwargs)
        values = (
            [result] if isinstance(result, Tensor) else [v for v in result or () if v is not None]
        )
        for i, (target, value) in enumerate(zip(targets, values, strict=True)):
            if i == 0 or target.shape == value.shape:
                _copy(target, value)

    return run


def _allocate(
    session: CaptureSession, stream: StreamState, shapes: Any, flat: list[Tensor | None]
) -> Any:
    """npu tensors of the graph's pool in the structure of `shapes`; all of them in `flat`."""
    if isinstance(shapes, Tensor):
        tensor = session.pool.tensor(stream, shapes.shape, shapes.stride(), shapes.dtype)
        flat.append(tensor)
        return tensor
    if type(shapes) in (tuple, list):
        return type(shapes)(_allocate(session, stream, s, flat) for s in shapes)
    flat.append(None)
    return shapes


def evaluate_shapes(
    info: OpInfo, operands: Operands, args: list[Any], kwargs: Mapping[str, Any]
) -> Any:
    """The operation's result on meta tensors: shapes, strides and dtypes, no values.

    Raises:
        CaptureError: AI-CAP-014 for an operation whose result shape needs values.
    """
    device_side = {id(h) for h in operands.hosts}

    def meta(value: Any) -> Any:
        if isinstance(value, Tensor):
            if id(value) not in device_side:
                return value
            return _empty_strided(value.shape, value.stride(), dtype=value.dtype, device=_META)
        if type(value) is list and value and (value[0] is None or isinstance(value[0], Tensor)):
            return [meta(v) for v in value]
        return value

    meta_args = [meta(a) for a in args]
    meta_kwargs = {k: meta(v) for k, v in kwargs.items() if k != "generator"}
    if "device" in meta_kwargs:
        meta_kwargs["device"] = _META
    try:
        return info.host_call(*meta_args, **meta_kwargs)
    except NotImplementedError:
        try:
            return info.host_call(*meta_args, **meta_kwargs)
        except NotImplementedError as error:
            raise CaptureError(
                "AI-CAP-014",
                f"{info.name} cannot be captured: PyTorch has no shape function for it",
                rule="capture does not execute, so output shapes must follow from input shapes",
                fix="run this operation outside the capture",
            ) from error
