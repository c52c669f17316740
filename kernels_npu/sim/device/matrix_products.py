"""Matrix products of half precision on the host: in float32, rounded once, as the cube does.

PyTorch's own float16 product on a CPU takes up to seventy times as long for large row-major
matrices, and sums in an order of its own. Thin matrices stay with it: there the conversion of the
other operand would cost more than the product.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

#: Operations with the position of the operand whose rows are the result's.
_PRODUCTS = {"mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1}
#: From here on converting pays.
_MANY_ROWS = 32


def host_call(op: Any) -> Callable[..., Any]:
    """What runs `op` on host tensors; PyTorch's kernel for all but products."""
    name = str(op._schema.name).removeprefix("aten::")
    if name not in _PRODUCTS or op._overloadname not in ("default", "out"):
        return op._op  # type: ignore[no-any-return]
    return _in_float32(name, op._op)


def _in_float32(name: str, own: Callable[..., Any]) -> Callable[..., Any]:
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


__all__ = ["host_call"]
