"""What runs an operation on host tensors, where PyTorch's CPU kernel is not the NPU's.

Products of half precision: in float32, rounded once, as the cube does. PyTorch's own float16
product on a CPU takes up to seventy times as long for large row-major matrices, and sums in an
order of its own. Thin matrices stay with it: there the conversion of the other operand would cost
more than the product.

Class labels: int32 as well as int64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

HostCall = Callable[..., Any]
#: Products, with the position of the operand whose rows are the result's.
_PRODUCTS = {"mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1}
#: From here on converting pays.
_MANY_ROWS = 32
_LABELLED = ("nll_loss_forward", "nll_loss_backward", "nll_loss2d_forward", "nll_loss2d_backward")


def host_call(op: Any) -> HostCall:
    """The callable for `op`; its PyTorch kernel for all but the operations above."""
    name = str(op._schema.name).removeprefix("aten::")
    own: HostCall = op._op
    if name in _LABELLED:
        return _with_long_labels(own)
    if name in _PRODUCTS and op._overloadname in ("default", "out"):
        return _in_float32(name, own)
    return own


def _in_float32(name: str, own: HostCall) -> HostCall:
    rows_of = _PRODUCTS[name]
    product = getattr(torch.ops.aten, name).default._op

    def call(*args: Any, out: torch.Tensor | None = None, **numbers: Any) -> Any:
        tensors = [a for a in args if isinstance(a, torch.Tensor)]
        wide = args[rows_of].shape[-2] >= _MANY_ROWS
        if not wide or any(t.dtype is not torch.float16 for t in tensors):
            return own(*args, **numbers) if out is None else own(*args, out=out, **numbers)
        exact = product(*(a.float() if isinstance(a, torch.Tensor) else a for a in args), **numbers)
        return exact.half() if out is None else out.resize_(exact.shape).copy_(exact)

    return call


def _with_long_labels(own: HostCall) -> HostCall:
    def call(*args: Any, **kwargs: Any) -> Any:
        return own(*(a.long() if _is_int32(a) else a for a in args), **kwargs)

    return call


def _is_int32(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype is torch.int32
