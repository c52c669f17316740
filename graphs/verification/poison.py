"""A bit pattern in outputs that no step computes: what still holds it was not written.

It is a NaN, so that whoever reads it spoils his result, but not the NaN that arithmetic makes, so
that a step that computes NaN is not taken for one that wrote nothing.
"""

from __future__ import annotations

import torch

_PATTERNS: dict[torch.dtype, tuple[torch.dtype, int]] = {
    torch.float16: (torch.int16, 0x7EA5),
    torch.bfloat16: (torch.int16, 0x7FE5),
    torch.float32: (torch.int32, 0x7FE5A5A5),
    torch.float64: (torch.int64, 0x7FFDA5A5A5A5A5A5),
}


def poison(tensor: torch.Tensor) -> None:
    """Fill a tensor of a floating dtype, on the current stream."""
    integers, pattern = _PATTERNS[tensor.dtype]
    tensor.view(integers).fill_(pattern)


def poisoned(tensor: torch.Tensor) -> torch.Tensor:
    """Which values of a host tensor still hold the pattern, as a bool tensor."""
    integers, pattern = _PATTERNS[tensor.dtype]
    return tensor.contiguous().view(integers) == pattern
