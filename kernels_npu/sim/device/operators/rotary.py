"""Rotary position embedding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from kernels_npu.sim.device.errors import NotSimulatedError
from kernels_npu.sim.device.operators.whole import WholeOperator


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


def rotate_by_position(
    positions: Tensor,
    query: Tensor,
    key: Tensor,
    head_size: int,
    cos_sin_cache: Tensor,
    is_neox_style: bool,
) -> None:
    """Turn query and key [tokens, heads * head size] in place by the angles of their positions.

    cos_sin_cache: [positions, rotary size], its first half cosines and its second half sines.
    Elements of a head behind the rotary size stay. is_neox_style: pairs are i and i + size / 2,
    else neighbours.
    """
    cos, sin = cos_sin_cache.index_select(0, positions.flatten().long()).float().chunk(2, -1)
    size = cos_sin_cache.shape[-1]
    for tensor in (query, key):
        heads = tensor.view(positions.numel(), -1, head_size)[..., :size]
        if is_neox_style:
            first, second = heads[..., : size // 2], heads[..., size // 2 :]
        else:
            first, second = heads[..., 0::2], heads[..., 1::2]
        a, b, c, s = first.float(), second.float(), cos.unsqueeze(1), sin.unsqueeze(1)
        turned = a * c - b * s, b * c + a * s  # both before either is written
        first.copy_(turned[0])
        second.copy_(turned[1])


WHOLE_OPERATORS = (
    WholeOperator(
        namespace="atb",
        schema="_npu_rotary_embedding(Tensor positions, Tensor(a!) query, Tensor(b!) key, "
        "int head_size, Tensor cos_sin_cache, bool is_neox_style) -> ()",
        compute=rotate_by_position,
    ),
)
