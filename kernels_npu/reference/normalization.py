"""Root-mean-square normalisation."""

from __future__ import annotations

import torch

from kernels_npu.reference.precision import wide


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """`x / sqrt(mean(x^2) + eps) * weight` per row of `x[rows, hidden]`, rounded once."""
    values = wide(x)
    variance = values.square().mean(dim=-1, keepdim=True)
    return (values * torch.rsqrt(variance + eps) * wide(weight)).to(x.dtype)


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> torch.Tensor:
    """`residual += x` (rounded to its dtype), then `rms_norm(residual)`."""
    residual.copy_((wide(residual) + wide(x)).to(residual.dtype))
    return rms_norm(residual, weight, eps)


def fused_add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """`total = x + residual`, rounded to its dtype; `(rms_norm(total), total)`, both new."""
    total = residual.clone(memory_format=torch.contiguous_format)
    return add_rms_norm(x, total, weight, eps), total
