"""The independent reference: transformers in float32 with the same dequantised weights.

The engine keeps the logits that chose each of its tokens. Here the same tokens are given to
transformers in one pass (teacher forcing), so both sides see the same context at every step and one
early difference cannot hide the later ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ascend_infer import reference
from ascend_infer.engine import Generation
from ascend_infer.model.weights import WeightSource
from kernels_npu.errors import UsageError

#: Differences that float32 itself leaves between two correct implementations.
_FLOAT32_TOLERANCE = 1e-3


#: How many times what the reference loses by rounding a row of ours may be off. Correct decoders
#: are off by 0.3 to 1.2 times as much, with random weights as with real ones; a decoder whose
#: prefill leaves out one key of forty, by 8.
_ROUNDING_FACTOR = 3.0


@dataclass(frozen=True, kw_only=True)
class Decided:
    """Rows where the reference's two best logits differ by more than the tolerance.

    agreements: how many of them have the reference's most likely token.
    """

    rows: int
    agreements: int


@dataclass(frozen=True, kw_only=True)
class ReferenceReport:
    """What a comparison of decode steps with the reference found.

    steps: decode steps compared. Prefill is not one of them; its rows (one per sequence, which
        chose the first token) are judged in the same way and have figures of their own.
    tolerance: how far rounding to the dtype moves a gap between logits, see `logit_tolerance`.
    top1_agreement: share of all steps whose most likely token is the reference's, 0.0 to 1.0.
    worst_row: largest root mean square of one row's differences, prefill included.
    row_limit: what it may be: a few times what the reference itself loses in this dtype.
    """

    steps: int
    max_abs_logit_diff: float
    prefill_max_abs_logit_diff: float
    worst_row: float
    row_limit: float
    top1_agreement: float
    tolerance: float
    decided: Decided
    prefill_decided: Decided

    @property
    def passed(self) -> bool:
        """Whether all rows agree with the reference as far as rounding lets them.

        Every row that the reference decides clearly was decided the same way, and no row is further
        from the reference's than rounding explains.
        """
        same = all(d.agreements == d.rows for d in (self.decided, self.prefill_decided))
        return same and self.worst_row <= self.row_limit

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready fields."""
        return {
            "steps": self.steps,
            "max_abs_logit_diff": self.max_abs_logit_diff,
            "prefill_max_abs_logit_diff": self.prefill_max_abs_logit_diff,
            "worst_row_rms_diff": self.worst_row,
            "row_rms_limit": self.row_limit,
            "top1_agreement": self.top1_agreement,
            "tolerance": self.tolerance,
            "decided_steps": self.decided.rows,
            "decided_agreements": self.decided.agreements,
            "prefill_decided_steps": self.prefill_decided.rows,
            "prefill_decided_agreements": self.prefill_decided.agreements,
            "passed": self.passed,
        }


def check_against_reference(
    source: WeightSource,
    generations: Sequence[Generation],
    dtype: torch.dtype,
    *,
    isolated: bool = False,
) -> ReferenceReport:
    """Compare generations that kept their logits with transformers.

    Args:
        dtype: what the generations were computed in; sets the tolerance.
        isolated: run transformers in a process of its own, where no simulated device and no
            torch_npu is loaded.

    Raises:
        UsageError: AI-MODEL-034 when no logits were kept.
        EnvironmentProblem: AI-MODEL-015 when transformers is not installed.
        UnsupportedError: AI-MODEL-034 when transformers cannot express the model.
    """
    ours = [generation.logits for generation in generations if generation.logits is not None]
    if len(ours) != len(generations) or not ours:
        raise UsageError(
            "AI-MODEL-034",
            f"{len(ours)} of {len(generations)} generations kept their logits",
            fix="generate with keep_logits=True",
        )
    compute = reference.logits_isolated if isolated else reference.logits
    tokens = [(g.prompt_token_ids, g.output_token_ids) for g in generations]
    theirs = compute(source, tokens, dtype)
    is_prefill = [row == 0 for logits in ours for row in range(len(logits))]
    return compare_logits(
        torch.cat(ours),
        torch.cat(theirs.values),
        torch.tensor(is_prefill, dtype=torch.bool),
        tolerance=logit_tolerance(torch.cat(theirs.values), dtype, source.config.num_layers),
        rounding=theirs.rounding,
    )


def compare_logits(
    ours: torch.Tensor,
    theirs: torch.Tensor,
    is_prefill: torch.Tensor,
    *,
    tolerance: float,
    rounding: float,
) -> ReferenceReport:
    """Compare float32 logits `[steps, vocab]` row by row.

    Args:
        theirs: the reference's. is_prefill: bool `[steps]`.
        tolerance: from `logit_tolerance`. rounding: from `reference.ReferenceLogits`.
    """
    difference = (ours - theirs).abs().nan_to_num(nan=math.inf)
    row_limit = max(_FLOAT32_TOLERANCE, _ROUNDING_FACTOR * rounding)
    best_two = theirs.topk(2, dim=-1).values
    agree = ours.argmax(dim=-1) == theirs.argmax(dim=-1)
    clear = (best_two[:, 0] - best_two[:, 1]) > tolerance

    def decided(rows: torch.Tensor) -> Decided:
        chosen = clear & rows
        return Decided(rows=int(chosen.sum()), agreements=int((chosen & agree).sum()))

    decode = ~is_prefill
    steps = int(decode.sum())
    return ReferenceReport(
        steps=steps,
        max_abs_logit_diff=_largest(difference[decode]),
        prefill_max_abs_logit_diff=_largest(difference[is_prefill]),
        worst_row=_largest(difference.square().mean(dim=-1).sqrt()),
        # A reference that overflows in this dtype says nothing about rounding.
        row_limit=row_limit if math.isfinite(row_limit) else tolerance,
        top1_agreement=float(agree[decode].float().mean()) if steps else 1.0,
        tolerance=tolerance,
        decided=decided(decode),
        prefill_decided=decided(is_prefill),
    )


def rounding_limit(
    rounding: float, reference: torch.Tensor, dtype: torch.dtype, num_layers: int
) -> float:
    """How far a correct decoder may be off, given what the reference itself loses in `dtype`."""
    limit = max(_FLOAT32_TOLERANCE, _ROUNDING_FACTOR * rounding)
    # A reference that overflows in this dtype says nothing about rounding.
    return limit if math.isfinite(limit) else logit_tolerance(reference, dtype, num_layers)


def logit_tolerance(reference: torch.Tensor, dtype: torch.dtype, num_layers: int) -> float:
    """The change of a difference between two logits that rounding explains.

    Each layer rounds its result to `dtype`; independent roundings add up like a random walk, so a
    logit is off by about eps * sqrt(layers) of the largest one, and two logits move against each
    other by twice that.
    """
    per_logit = torch.finfo(dtype).eps * float(reference.abs().max()) * math.sqrt(num_layers)
    return max(_FLOAT32_TOLERANCE, 2 * per_logit)


def _largest(differences: torch.Tensor) -> float:
    return float(differences.max()) if differences.numel() else 0.0
