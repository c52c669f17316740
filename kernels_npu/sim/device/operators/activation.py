"""Activations: GELU's backward, SwiGLU and its backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import silu


def npu_gelu_backward(grad_output: Tensor, self: Tensor, *, approximate: str = "none") -> Tensor:
    """`grad_output * gelu'(self)`; approximate: `none` (by erf) or `tanh`."""
    gradient = torch.ops.aten.gelu_backward(
        grad_output.float(), self.float(), approximate=approximate
    )
    return gradient.to(self.dtype)  # type: ignore[no-any-return]


def npu_swiglu(self: Tensor, dim: int = -1) -> Tensor:
    """`silu(a) * b` for the halves a, b of `self` along `dim`."""
    a, b = self.float().chunk(2, dim)
    return (silu(a) * b).to(self.dtype)


def npu_swiglu_backward(grad_output: Tensor, self: Tensor, dim: int = -1) -> Tensor:
    """The gradient of `npu_swiglu` with respect to `self`.

    The operator takes the shape from `self` alone: a contiguous `grad_output` that is larger than
    the result of `npu_swiglu` is read from its start.
    """
    a, b = self.float().chunk(2, dim)
    gradient = grad_output.float()
    if gradient.numel() > a.numel():
        gradient = gradient.flatten()[: a.numel()].view(a.shape)
    gate = torch.sigmoid(a)
    to_a = gradient * b * gate * (1 + a * (1 - gate))
    return torch.cat([to_a, gradient * a * gate], dim).to(self.dtype)


OPERATORS: dict[str, Callable[..., Any]] = {
    "npu_gelu_backward(Tensor grad_output, Tensor self, *, str approximate='none') -> Tensor": (
        npu_gelu_backward
    ),
    "npu_swiglu(Tensor self, int dim=-1) -> Tensor": npu_swiglu,
    "npu_swiglu_backward(Tensor grad_output, Tensor self, int dim=-1) -> Tensor": (
        npu_swiglu_backward
    ),
}
