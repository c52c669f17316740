"""What the kernels ask of the layout of their operands."""

from __future__ import annotations

import torch


def dense_last(tensor: torch.Tensor) -> torch.Tensor:
    """`tensor`, or a copy of it whose elements along the last dimension are neighbours.

    Rows themselves may be apart: parts of a fused projection are taken as they are.
    """
    return tensor if tensor.stride(-1) == 1 or tensor.shape[-1] == 1 else tensor.contiguous()


def require_dense_last(op: str, **tensors: torch.Tensor) -> None:
    """Operands that are written in place cannot be copied first."""
    for name, tensor in tensors.items():
        if tensor.numel() and tensor.stride(-1) != 1:
            from kernels_npu.errors import UsageError

            raise UsageError(
                "AI-OP-003",
                f"{op}: the elements of a row of {name} are {tensor.stride(-1)} apart",
                rule=f"{name} is written in place, row by row",
                fix=f"pass {name}.contiguous()",
            )
