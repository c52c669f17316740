"""The dtype that references compute in."""

from __future__ import annotations

import torch


def wide(x: torch.Tensor) -> torch.Tensor:
    """`x` in float32, or in float64 when it already is."""
    return x if x.dtype is torch.float64 else x.float()
