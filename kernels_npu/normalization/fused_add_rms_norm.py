"""Residual addition and RMSNorm in one pass over memory, both results new."""

# No `from __future__ import annotations`: the compiler evaluates annotations in the closure.
import functools

import torch

from kernels_npu import reference
from kernels_npu.checking import dialect_dtype
from kernels_npu.dialect import T, tilelang
from kernels_npu.launch import block_count, launch
from kernels_npu.normalization import add_rms_norm, common
from kernels_npu.spec import ITEMSIZE, OpSpec, Traffic, Workload


@tilelang.jit(out_idx=[3, 4], target="ascendc")
def fused_add_rms_norm_kernel(hidden: int, eps: float, dtype: str, max_blocks: int):
    """As `add_rms_norm_kernel`, with the sum in a tensor of its own."""
    rows = T.symbolic("rows")
    add_and_normalise = add_rms_norm.row_pass(hidden, eps, dtype, max_blocks, rows)

    @T.prim_func
    def fused_add_rms_norm(
        x: T.Tensor([rows, hidden], dtype),
        residual: T.Tensor([rows, hidden], dtype),
        weight: T.Tensor([hidden], dtype),
        out: T.Tensor([rows, hidden], dtype),
        total: T.Tensor([rows, hidden], dtype),
    ):
        add_and_normalise(x, residual, weight, total, out)

    return fused_add_rms_norm


_compiled = functools.cache(fused_add_rms_norm_kernel)


def fused_add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """`total = x + residual`, rounded; returns `(rms_norm(total, weight, eps), total)`.

    Args:
        x, residual: `[rows, hidden]` float16 or bfloat16, contiguous, not changed; 0 rows launch
            nothing. hidden: a multiple of 16 up to 16384.
        weight: `[hidden]` of x's dtype.
        eps: not negative.

    Returns:
        Two tensors `[rows, hidden]` of x's dtype.

    Raises:
        UsageError: AI-OP-001 to AI-OP-005. UnsupportedError: AI-OP-006 for another hidden size.
    """
    add_rms_norm.check(x, residual, weight, eps, "fused_add_rms_norm")
    if x.shape[0] == 0:
        return torch.empty_like(x), torch.empty_like(x)
    kernel = _compiled(x.shape[1], eps, dialect_dtype(x.dtype), block_count(x.device))
    out, total = launch(kernel, x, residual, weight)
    return out, total


def traffic(workload: Workload, dtype: str) -> dict[str, Traffic]:
    """As of `add_rms_norm`: the sum is written beside the residual instead of over it."""
    elements = workload["rows"] * workload["hidden"] * ITEMSIZE[dtype]
    return {
        **add_rms_norm.traffic(workload, dtype),
        "residual": Traffic(read=elements),
        "total": Traffic(written=elements),
    }


SPEC = OpSpec(
    name="fused_add_rms_norm",
    workloads=common.WORKLOADS,
    make_inputs=add_rms_norm.make_inputs,
    reference=reference.fused_add_rms_norm,
    traffic=traffic,
    flops=add_rms_norm.SPEC.flops,
    tolerance=common.SUM_TOLERANCE,
    results=("output", "total"),
)
