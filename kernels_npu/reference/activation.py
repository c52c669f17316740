"""Gated activations."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from kernels_npu.reference.precision import wide


def silu_and_mul(x: torch.Tensor) -> torch.Tensor:
    """`silu(gate) * up` of `x[rows, 2 * inter]` = `[gate | up]`, rounded once."""
    gate, up = wide(x).chunk(2, dim=-1)
    return (F.silu(gate) * up).to(x.dtype)
