"""Tokens of a mixture of experts, sorted by expert and put back.

Gradients are sums over the copies of a token; they are formed in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from kernels_npu.sim.device.errors import NotSimulatedError


class _Permute(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tokens: Tensor, indices: Tensor, kept: int | None) -> Any:
        copies = indices.shape[1] if indices.dim() == 2 else 1
        order = torch.argsort(indices.reshape(-1), stable=True)
        position = torch.argsort(order).to(torch.int32)
        source = order[: kept or None] // copies
        ctx.save_for_backward(source)
        ctx.shape = tokens.shape
        ctx.mark_non_differentiable(position)
        return tokens.index_select(0, source), position

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> Any:
        (source,) = ctx.saved_tensors
        total = gradient.new_zeros(ctx.shape, dtype=torch.float32)
        return total.index_add(0, source, gradient.float()).to(gradient.dtype), None, None


class _Unpermute(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, permuted: Tensor, position: Tensor, probs: Tensor | None) -> Tensor:
        ctx.save_for_backward(permuted, position, probs)
        copies = _copies(permuted, position, probs)
        if probs is not None:
            copies = copies * probs.float().unsqueeze(-1)
        return copies.sum(1).to(permuted.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        permuted, position, probs = ctx.saved_tensors
        per_copy = gradient.float().unsqueeze(1)
        to_probs = None
        if probs is not None:
            to_probs = (per_copy * _copies(permuted, position, probs)).sum(-1).to(probs.dtype)
            per_copy = per_copy * probs.float().unsqueeze(-1)
        rows = per_copy.flatten(0, 1)
        exists = position < permuted.shape[0]
        place = torch.where(exists, position, 0).long()
        total = gradient.new_zeros(permuted.shape, dtype=torch.float32)
        total = total.index_add(0, place, torch.where(exists.unsqueeze(-1), rows, 0.0))
        return total.to(permuted.dtype), None, to_probs


def _copies(permuted: Tensor, position: Tensor, probs: Tensor | None) -> Tensor:
    """[tokens, top k, hidden] in float32; copies that were dropped are zero."""
    exists = position < permuted.shape[0]
    rows = permuted.float().index_select(0, torch.where(exists, position, 0))
    rows = torch.where(exists.unsqueeze(-1), rows, 0.0)
    groups: Tensor = rows.unflatten(0, (-1, 1 if probs is None else probs.shape[1]))
    return groups


#: `apply` has no types in PyTorch.
_permute: Callable[..., Any] = _Permute.apply
_unpermute: Callable[..., Any] = _Unpermute.apply


def npu_moe_token_permute(
    tokens: Tensor, indices: Tensor, num_out_tokens: int | None = None, padded_mode: bool = False
) -> tuple[Tensor, Tensor]:
    """Copies of the rows of `tokens`, one per entry of `indices` [N] or [N, top k], by expert.

    num_out_tokens: how many copies stay; None or 0 keeps all, a negative number drops as many.

    Returns:
        The permuted rows, and per entry of `indices` where its copy is (int32).
    """
    _refuse_padded("npu_moe_token_permute", padded_mode)
    result: tuple[Tensor, Tensor] = _permute(tokens, indices, num_out_tokens)
    return result


def npu_moe_token_unpermute(
    permuted_tokens: Tensor,
    sorted_indices: Tensor,
    probs: Tensor | None = None,
    padded_mode: bool = False,
    restore_shape: list[int] | None = None,
) -> Tensor:
    """The rows at `sorted_indices`, weighted by `probs` [tokens, top k] and summed over top k.

    Without `probs` every row is a token of its own. Indices past the last row give zeros.
    """
    _refuse_padded("npu_moe_token_unpermute", padded_mode or restore_shape is not None)
    result: Tensor = _unpermute(permuted_tokens, sorted_indices, probs)
    return result


def _refuse_padded(name: str, padded: bool) -> None:
    if padded:
        raise NotSimulatedError(
            "AI-DEV-008",
            f"torch_npu.{name} in padded mode is not simulated",
            rule="the operator's current version supports padded_mode=False only",
            fix="leave padded_mode and restore_shape out",
        )


OPERATORS: dict[str, Callable[..., Any]] = {
    "npu_moe_token_permute(Tensor tokens, Tensor indices, int? num_out_tokens=None, "
    "bool padded_mode=False) -> (Tensor, Tensor)": npu_moe_token_permute,
    "npu_moe_token_unpermute(Tensor permuted_tokens, Tensor sorted_indices, Tensor? probs=None, "
    "bool padded_mode=False, int[]? restore_shape=None) -> Tensor": npu_moe_token_unpermute,
}
