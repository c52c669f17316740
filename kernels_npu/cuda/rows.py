"""What the kernels ask of the layout of their operands."""

from __future__ import annotations

import torch

from kernels_npu.errors import UsageError


def dense_last(tensor: torch.Tensor) -> torch.Tensor:
    """`tensor`, or a copy of it whose elements along the last dimension are neighbours.

    Rows themselves may be apart: parts of a fused projection are taken as they are.
    """
    return tensor if tensor.stride(-1) == 1 or tensor.shape[-1] == 1 else tensor.contiguous()


def require_dense_last(op: str, **tensors: torch.Tensor) -> None:
    """Refuse operands that are written in place and whose rows are not runs of memory: AI-OP-003.

    Copying them first, as inputs are, would write into the copy.
    """
    for name, tensor in tensors.items():
        if tensor.numel() and tensor.stride(-1) != 1:
            raise UsageError(
                "AI-OP-003",
                f"{op}: {name} of shape {list(tensor.shape)} has strides {list(tensor.stride())}: "
                "the elements of a row are not neighbours",
                rule=f"{name} is written in place, row by row",
                fix=f"pass {name}.contiguous()",
            )
