"""Operators that stay one operation: recorded as one step, updated by task groups, traced as one.

The others of this package are composites, which a capture sees as the operations that they consist
of. A whole operator computes on the host aliases of its operands. What it computes is registered a
second time as `npu_host::<name>`, which is what a capture records and a replay runs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

from kernels_npu.sim.device import recording
from kernels_npu.sim.device.arguments import Operands, mixed_devices
from kernels_npu.sim.device.dispatch import refuse_strangers, submit, wrap_all
from kernels_npu.sim.device.schemas import OpInfo, describe
from kernels_npu.sim.device.state import current

#: Namespace of what computes on the host.
HOST_NAMESPACE = "npu_host"
#: Libraries by namespace; they live as long as the process.
_libraries: dict[str, Any] = {}


@dataclasses.dataclass(frozen=True, kw_only=True)
class WholeOperator:
    """One operator.

    schema: with its overload, without namespace. compute: takes the arguments in the order of the
    schema, as host tensors, and writes those that the schema says it writes. shapes: the same on
    meta tensors; None where `compute` needs no values. from_host: tensors that the operator takes
    from the host and reads at the call. returns: the written list of tensors that the result is.
    allocates: it does nothing else, and so a capture records nothing.
    """

    schema: str
    namespace: str = "npu"
    compute: Callable[..., Any]
    shapes: Callable[..., Any] | None = None
    from_host: frozenset[str] = frozenset()
    returns: str | None = None
    allocates: bool = False

    @property
    def qualified(self) -> str:
        """Name and overload."""
        return self.schema.partition("(")[0]

    @property
    def name(self) -> str:
        """Name without overload."""
        return self.qualified.partition(".")[0]


def _library(namespace: str) -> Any:
    if namespace not in _libraries:
        _libraries[namespace] = torch.library.Library(namespace, "FRAGMENT")
    return _libraries[namespace]


def register(operator: WholeOperator) -> None:
    """Define `torch.ops.<namespace>.<name>` for tensors of the device and for fake ones."""
    computing, device = _library(HOST_NAMESPACE), _library(operator.namespace)
    computing.define(operator.schema)
    device.define(operator.schema)
    _, _, overload = operator.qualified.partition(".")
    op = getattr(getattr(getattr(torch.ops, HOST_NAMESPACE), operator.name), overload or "default")
    info = dataclasses.replace(describe(op, operator.qualified), name=operator.qualified)
    shapes = _complete(operator.shapes or operator.compute, op._schema)
    computing.impl(operator.qualified, _complete(operator.compute, op._schema), "CPU")
    computing.impl(operator.qualified, shapes, "Meta")
    on_device = shapes if operator.allocates else _on_device(info, operator)
    device.impl(operator.qualified, on_device, "PrivateUse1")
    device.impl(operator.qualified, shapes, "Meta")
    device.impl(operator.qualified, _on_host(operator.name), "CPU")


def _complete(function: Callable[..., Any], schema: Any) -> Callable[..., Any]:
    """`function`, called with every argument: PyTorch leaves out those that equal the default."""
    arguments = schema.arguments

    def call(*args: Any, **kwargs: Any) -> Any:
        values = list(args)
        for argument in arguments[len(args) :]:
            value = kwargs.get(argument.name, argument.default_value)
            if argument.kwarg_only:
                kwargs[argument.name] = value
            else:
                values.append(value)
        return function(*values, **kwargs)

    return call


def _on_host(name: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise mixed_devices(f"torch_npu.{name}", "npu", "cpu")

    return refuse


def _on_device(info: OpInfo, operator: WholeOperator) -> Callable[..., Any]:
    arguments = info.op._schema.arguments
    written = [a.alias_info is not None and a.alias_info.is_write for a in arguments]
    makes_new = bool(info.op._schema.returns) and operator.returns is None

    def kernel(*args: Any, **kwargs: Any) -> Any:
        operands = Operands(info.name)
        positional, keywords, bits = [], {}, 0
        for i, argument in enumerate(arguments):
            value = args[i] if i < len(args) else kwargs.get(argument.name, argument.default_value)
            before = len(operands.blocks)
            if argument.name in operator.from_host and value is not None:
                value = _value_of(value)
            else:
                value = operands.convert(value)
            if written[i]:
                bits |= (1 << len(operands.blocks)) - (1 << before)
            if argument.kwarg_only:
                keywords[argument.name] = value
            else:
                positional.append(value)
        if operands.strangers:
            refuse_strangers(operands)
        stream = current.streams[max(operands.index, 0)]
        if stream.session is None:
            seq = submit(stream, operands, bits, info.name)
            result = info.host_call(*positional, **keywords)
            if makes_new:
                return wrap_all(result, operands.index, seq, info.name)
        elif makes_new:
            return recording.functional(
                stream, info, operands, positional, keywords, None, written=bits
            )
        else:
            recording.inplace(stream, info, operands, bits, positional, keywords, None)
        return tuple(kwargs[operator.returns]) if operator.returns else None

    return kernel


def _value_of(tensor: torch.Tensor) -> torch.Tensor:
    """What the operator reads on the host: the values at the call, whatever becomes of them."""
    return tensor.cpu() if tensor.device.type == "npu" else tensor.clone()
