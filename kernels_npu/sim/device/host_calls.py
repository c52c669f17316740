"""What runs an operation on host tensors, where PyTorch's CPU kernel is not the NPU's.

Products of half precision: in float32, rounded once, as the cube does. PyTorch's own float16
product on a CPU takes up to seventy times as long for large row-major matrices, and sums in an
order of its own. Thin matrices stay with it: there the conversion of the other operand would cost
more than the product. Short sums are computed like those of kernels, in float64 and rounded to
float32: on the NPU both run on one cube, and scripts compare them bit by bit.

Transcendental functions of float32 and float16: through float64, as in kernels.

Class labels: int32 as well as int64.

Numbers that a tensor of integers is filled with: wrapped to its dtype, where PyTorch's CPU kernel
raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from kernels_npu.sim.machine.ops.cube import EXACT_SUM

HostCall = Callable[..., Any]
#: Products, with the position of the operand whose rows are the result's.
_PRODUCTS = {"mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1}
_HALVES = (torch.float16, torch.bfloat16)
_FUNCTIONS = ("exp", "exp2", "log", "log2", "sin", "cos", "tanh")
#: From here on converting pays.
_MANY_ROWS = 32
_LABELLED = ("nll_loss_forward", "nll_loss_backward", "nll_loss2d_forward", "nll_loss2d_backward")
_FILLED = ("fill", "full", "masked_fill", "scalar_tensor")


def host_call(op: Any) -> HostCall:
    """The callable for `op`; its PyTorch kernel for all but the operations above."""
    name = str(op._schema.name).removeprefix("aten::")
    own: HostCall = op._op
    if name in _LABELLED:
        return _with_long_labels(own)
    if name.removesuffix("_") in _FILLED:
        return _with_wrapped_number(own)
    if op._overloadname in ("default", "out"):
        if name in _PRODUCTS:
            return _in_float32(name, own)
        if name.removesuffix("_") in _FUNCTIONS:
            return _rounded_once(name, own)
    return own


def _in_float32(name: str, own: HostCall) -> HostCall:
    rows_of = _PRODUCTS[name]
    product = getattr(torch.ops.aten, name).default._op

    def call(*args: Any, out: torch.Tensor | None = None, **numbers: Any) -> Any:
        tensors = [a for a in args if isinstance(a, torch.Tensor)]
        dtype, (rows, length) = tensors[0].dtype, args[rows_of].shape[-2:]
        short = length <= EXACT_SUM
        mixed = any(t.dtype is not dtype for t in tensors)
        if (
            mixed
            or dtype not in _HALVES
            or not (short or (rows >= _MANY_ROWS and dtype is torch.float16))
        ):
            return own(*args, **numbers) if out is None else own(*args, out=out, **numbers)
        wide = torch.float64 if short else torch.float32
        exact = product(*(_converted(a, wide) for a in args), **numbers).float()
        return exact.to(dtype) if out is None else out.resize_(exact.shape).copy_(exact)

    return call


def _converted(value: Any, dtype: torch.dtype) -> Any:
    return value.to(dtype) if isinstance(value, torch.Tensor) else value


def _rounded_once(name: str, own: HostCall) -> HostCall:
    function = getattr(torch.ops.aten, name.removesuffix("_")).default._op

    def call(value: torch.Tensor, *, out: torch.Tensor | None = None) -> Any:
        if value.dtype not in (torch.float32, torch.float16):
            return own(value) if out is None else own(value, out=out)
        exact = function(value.double()).float()
        if name.endswith("_"):
            return value.copy_(exact)
        return exact.to(value.dtype) if out is None else out.resize_(exact.shape).copy_(exact)

    return call


def _with_long_labels(own: HostCall) -> HostCall:
    def call(*args: Any, **kwargs: Any) -> Any:
        return own(*(a.long() if _is_int32(a) else a for a in args), **kwargs)

    return call


def _with_wrapped_number(own: HostCall) -> HostCall:
    def call(*args: Any, **kwargs: Any) -> Any:
        dtype = args[0].dtype if isinstance(args[0], torch.Tensor) else kwargs.get("dtype")
        return own(*(_wrapped(a, dtype) for a in args), **kwargs)

    return call


def _wrapped(value: Any, dtype: torch.dtype | None) -> Any:
    """An integer as a tensor of `dtype` holds it; anything else as it is."""
    if type(value) is not int or dtype is None or dtype is torch.bool:
        return value
    if dtype.is_floating_point or dtype.is_complex:
        return value
    limits = torch.iinfo(dtype)
    return (value - limits.min) % (1 << limits.bits) + limits.min


def _is_int32(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype is torch.int32
