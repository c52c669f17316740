"""Filtering logits before sampling."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels_npu.sim.device.operators.whole import WholeOperator


def npu_top_k_top_p(logits: Tensor, p: Tensor | None = None, k: Tensor | None = None) -> Tensor:
    """`logits` [rows, vocabulary] with everything that a row does not sample from set to -inf.

    k: [rows], how many of the largest stay, together with what equals the smallest of them.
    p: [rows], the least probability that what stays has together, after `k`; at least one stays.
    """
    values, order = logits.float().sort(dim=-1)
    if k is not None:
        smallest = values.gather(1, (values.shape[1] - k.long()).clamp(min=0).unsqueeze(1))
        values = values.masked_fill(values < smallest, float("-inf"))
    if p is not None:
        below = values.softmax(-1).cumsum(-1) <= 1 - p.float().unsqueeze(1)
        below[:, -1] = False
        values = values.masked_fill(below, float("-inf"))
    return torch.empty_like(logits).scatter_(1, order, values.to(logits.dtype))


OPERATORS = (
    WholeOperator(
        schema="npu_top_k_top_p(Tensor logits, Tensor? p=None, Tensor? k=None) -> Tensor",
        compute=npu_top_k_top_p,
    ),
)
