"""Operators of torch_npu that scripts compare their kernels with, in plain PyTorch.

`register` defines them as `torch.ops.npu.<name>`; `torch_npu.<name>` is the same. Each computes in
float32, rounds once to the dtype of its result, and has a backward pass. Formulas: torch_npu's API
reference and the operator documentation of CANN.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from kernels_npu.sim.device.arguments import mixed_devices
from kernels_npu.sim.device.operators import activation, loss, moe, rotary

Operator = Callable[..., Any]
#: Schema -> what computes it.
OPERATORS: Mapping[str, Operator] = {
    **activation.OPERATORS,
    **loss.OPERATORS,
    **moe.OPERATORS,
    **rotary.OPERATORS,
}
_library: Any = None


def names() -> list[str]:
    """The operators that exist, by name."""
    return [schema.partition("(")[0] for schema in OPERATORS]


def register() -> None:
    """Define all operators; called once by `enable`."""
    global _library
    _library = torch.library.Library("npu", "DEF")
    for schema, function in OPERATORS.items():
        name = schema.partition("(")[0]
        _library.define(schema)
        _library.impl(name, _on_device(name, function), "CompositeImplicitAutograd")


def _on_device(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, refusing tensors of the host as the operator does."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        tensors = [a for a in tree_leaves((args, kwargs)) if isinstance(a, torch.Tensor)]
        if any(t.device.type == "cpu" for t in tensors):
            raise mixed_devices(f"torch_npu.{name}", "npu", "cpu")
        return function(*args, **kwargs)

    return call
