"""Gated activations."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels_npu.cuda.rows import dense_last

_COLUMNS = 1024


@triton.jit
def _silu_and_mul(x, out, x_row, inter, COLUMNS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < inter
    gate = tl.load(x + row * x_row + column, mask=inside, other=0.0)
    up = tl.load(x + row * x_row + inter + column, mask=inside, other=0.0).to(tl.float32)
    wide = gate.to(tl.float32)
    result = wide / (1.0 + tl.exp(-wide)) * up
    tl.store(out + row * inter + column, result.to(gate.dtype), mask=inside)


def silu_and_mul(x: torch.Tensor) -> torch.Tensor:
    """As `kernels_npu.reference.silu_and_mul`."""
    x = dense_last(x)
    rows, inter = x.shape[0], x.shape[1] // 2
    out = torch.empty(rows, inter, dtype=x.dtype, device=x.device)
    if out.numel():
        _silu_and_mul[(rows, triton.cdiv(inter, _COLUMNS))](
            x, out, x.stride(0), inter, COLUMNS=_COLUMNS
        )
    return out
