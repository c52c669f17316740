"""Rotary position embedding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from kernels_npu.sim.device.errors import NotSimulatedError


def npu_rotary_mul(input: Tensor, r1: Tensor, r2: Tensor, rotary_mode: str = "half") -> Tensor:
    """`input * r1 + rotated(input) * r2`, with r1 the cosines and r2 the sines, broadcast.

    rotary_mode: `half` pairs element i with i + D/2, `interleave` pairs neighbours.
    """
    x = input.float()
    if rotary_mode == "half":
        first, second = x.chunk(2, -1)
        rotated = torch.cat([-second, first], -1)
    elif rotary_mode == "interleave":
        pairs = x.unflatten(-1, (-1, 2))
        rotated = torch.stack([-pairs[..., 1], pairs[..., 0]], -1).flatten(-2)
    else:
        raise NotSimulatedError(
            "AI-DEV-008",
            f"torch_npu.npu_rotary_mul with rotary_mode={rotary_mode!r}",
            rule="rotary_mode is half or interleave",
            fix="use one of the two",
        )
    return (x * r1.float() + rotated * r2.float()).to(input.dtype)


OPERATORS: dict[str, Callable[..., Any]] = {
    "npu_rotary_mul(Tensor input, Tensor r1, Tensor r2, str rotary_mode='half') -> Tensor": (
        npu_rotary_mul
    ),
}
