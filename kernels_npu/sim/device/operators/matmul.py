"""Products that add to what is there, and the storage format of weights."""

from __future__ import annotations

from torch import Tensor

from kernels_npu.sim.device.operators.whole import WholeOperator


def matmul_add_fp32(x: Tensor, weight: Tensor, C: Tensor) -> None:
    """`C += x.T @ weight`, with C in float32, as for gradients of weights."""
    C.add_(x.float().t() @ weight.float())


def npu_format_cast(
    input: Tensor,
    acl_format: int,
    *,
    customize_dtype: int | None = None,
    input_dtype: int | None = None,
) -> Tensor:
    """A copy of `input`: a format is an order of bytes, and only row-major order is stored here."""
    return input.clone()


OPERATORS = (
    WholeOperator(
        namespace="atb",
        schema="_npu_matmul_add_fp32(Tensor x, Tensor weight, Tensor(a!) C) -> ()",
        compute=matmul_add_fp32,
    ),
    WholeOperator(
        schema="npu_format_cast(Tensor input, int acl_format, *, int? customize_dtype=None, "
        "int? input_dtype=None) -> Tensor",
        compute=npu_format_cast,
    ),
)
