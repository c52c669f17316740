"""Root-mean-square normalisation, one program per row."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels_npu.cuda.rows import dense_last, require_dense_last


@triton.jit
def _rms_norm(
    x,
    residual,
    weight,
    out,
    total,
    x_row,
    residual_row,
    total_row,
    hidden,
    eps,
    ADD: tl.constexpr,
    HIDDEN_PAD: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, HIDDEN_PAD)
    inside = column < hidden
    values = tl.load(x + row * x_row + column, mask=inside, other=0.0)
    dtype = values.dtype
    if ADD:
        place = residual + row * residual_row + column
        added = values.to(tl.float32) + tl.load(place, mask=inside, other=0.0).to(tl.float32)
        values = added.to(dtype)
        tl.store(total + row * total_row + column, values, mask=inside)
    wide = values.to(tl.float32)
    scale = tl.rsqrt(tl.sum(wide * wide, 0) / hidden + eps)
    factors = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row * hidden + column, (wide * scale * factors).to(dtype), mask=inside)


def _launch(
    x: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    sums: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> torch.Tensor:
    """sums: the residual and where it goes with x added; the same tensor, or another."""
    x = dense_last(x)
    rows, hidden = x.shape
    residual, total = sums or (x, x)
    out = torch.empty(rows, hidden, dtype=x.dtype, device=x.device)
    if out.numel():
        _rms_norm[(rows,)](
            x,
            residual,
            weight.contiguous(),
            out,
            total,
            x.stride(0),
            residual.stride(0),
            total.stride(0),
            hidden,
            eps,
            ADD=sums is not None,
            HIDDEN_PAD=triton.next_power_of_2(hidden),
            num_warps=8 if hidden >= 2048 else 4,
        )
    return out


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """As `kernels_npu.reference.rms_norm`."""
    return _launch(x, weight, eps)


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> torch.Tensor:
    """As `kernels_npu.reference.add_rms_norm`."""
    require_dense_last("add_rms_norm", residual=residual)
    return _launch(x, weight, eps, (residual, residual))


def fused_add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `kernels_npu.reference.fused_add_rms_norm`."""
    total = torch.empty(residual.shape, dtype=residual.dtype, device=residual.device)
    return _launch(x, weight, eps, (dense_last(residual), total)), total
