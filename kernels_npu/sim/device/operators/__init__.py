"""Operators of torch_npu that scripts compare with and serving hosts call, in plain PyTorch.

`register` defines them as `torch.ops.npu.<name>`, those of the library ATB as
`torch.ops.atb.<name>`; `torch_npu.<name>` is the same. Each computes in float32 and rounds once to
the dtype of its result. Those of training are composites with a backward pass; those that serving
hosts call stay whole (`whole`) and have none. Formulas: torch_npu's API reference and the operator
documentation of CANN. Schemas: torch_npu 2.13.0.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from kernels_npu.sim.device.arguments import mixed_devices
from kernels_npu.sim.device.operators import (
    activation,
    fused_infer_attention,
    kv_cache,
    loss,
    matmul,
    moe,
    normalization,
    paged_attention,
    rotary,
    sampling,
    whole,
)

Operator = Callable[..., Any]
#: Schema -> what computes it.
OPERATORS: Mapping[str, Operator] = {
    **activation.OPERATORS,
    **loss.OPERATORS,
    **moe.OPERATORS,
    **rotary.OPERATORS,
}
#: Those that a capture records as one step.
WHOLE_OPERATORS: tuple[whole.WholeOperator, ...] = (
    *fused_infer_attention.OPERATORS,
    *kv_cache.OPERATORS,
    *matmul.OPERATORS,
    *normalization.OPERATORS,
    *paged_attention.OPERATORS,
    *rotary.WHOLE_OPERATORS,
    *sampling.OPERATORS,
)
_NAMESPACES: Mapping[str, str] = {
    **{schema.partition("(")[0]: "npu" for schema in OPERATORS},
    **{operator.name: operator.namespace for operator in WHOLE_OPERATORS},
}
_library: Any = None


def find(name: str) -> Any:
    """`torch_npu.<name>`, or None where there is no such operator."""
    namespace = _NAMESPACES.get(name)
    return namespace and getattr(getattr(torch.ops, namespace), name)


def register() -> None:
    """Define all operators; called once by `enable`."""
    global _library
    _library = torch.library.Library("npu", "DEF")
    for schema, function in OPERATORS.items():
        name = schema.partition("(")[0]
        _library.define(schema)
        _library.impl(name, _on_device(name, function), "CompositeImplicitAutograd")
    for operator in WHOLE_OPERATORS:
        whole.register(operator)


def _on_device(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, refusing tensors of the host as the operator does."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        tensors = [a for a in tree_leaves((args, kwargs)) if isinstance(a, torch.Tensor)]
        if any(t.device.type == "cpu" for t in tensors):
            raise mixed_devices(f"torch_npu.{name}", "npu", "cpu")
        return function(*args, **kwargs)

    return call
