"""Cross entropy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.nn.functional import log_softmax, nll_loss

from kernels_npu.sim.device.errors import NotSimulatedError


def npu_cross_entropy_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    lse_square_scale_for_zloss: float = 0.0,
    return_zloss: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Cross entropy of `input` [N, C] and the labels `target` [N].

    Returns:
        loss ([N] without reduction, else [1]), log_prob [N, C], and two empty tensors in place of
        the z-loss, which the operator does not compute yet either.

    Raises:
        NotSimulatedError: AI-DEV-008 for label smoothing and z-loss.
    """
    if label_smoothing or lse_square_scale_for_zloss or return_zloss:
        raise NotSimulatedError(
            "AI-DEV-008",
            "torch_npu.npu_cross_entropy_loss with label smoothing or z-loss is not simulated",
            fix="leave label_smoothing, lse_square_scale_for_zloss and return_zloss at 0",
        )
    log_prob = log_softmax(input.float(), dim=-1)
    loss = nll_loss(log_prob, target.long(), weight, ignore_index=ignore_index, reduction=reduction)
    rounded = loss.to(input.dtype)
    empty = input.new_empty(0)
    return (
        rounded if reduction == "none" else rounded.reshape(1),
        log_prob.to(input.dtype),
        empty,
        input.new_empty(0),
    )


OPERATORS: dict[str, Callable[..., Any]] = {
    "npu_cross_entropy_loss(Tensor input, Tensor target, Tensor? weight=None, "
    "str reduction='mean', int ignore_index=-100, float label_smoothing=0.0, "
    "float lse_square_scale_for_zloss=0.0, bool return_zloss=False) "
    "-> (Tensor, Tensor, Tensor, Tensor)": npu_cross_entropy_loss,
}
