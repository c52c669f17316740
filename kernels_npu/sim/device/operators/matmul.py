"""Products that add to what is there, and the storage format of weights."""

from __future__ import annotations

from torch import Tensor

from kernels_npu.sim.device.operators.whole import WholeOperator


def matmul_add_fp32(x: Tensor, weight: Tensor, C: Tensor) -> None:
    """`C += x.T @ weight`, with C in float32, as for gradients of weights."""
    C.add_(x.float().t() @ weight.float())


def npu_format_cast(self: Tensor, acl_format: int, customize_dtype: int | None = None) -> Tensor:
    """A copy of `self`. Formats are an order of bytes, which the simulated device does not have."""
    return self.clone()


OPERATORS = (
    WholeOperator(
        schema="_npu_matmul_add_fp32(Tensor x, Tensor weight, Tensor(a!) C) -> ()",
        compute=matmul_add_fp32,
    ),
    WholeOperator(
        schema="npu_format_cast(Tensor self, int acl_format, int? customize_dtype=None) -> Tensor",
        compute=npu_format_cast,
    ),
)
