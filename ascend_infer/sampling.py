"""Choosing the next token on the host from float32 logits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernels_npu.errors import SimulationError, UsageError

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """temperature 0 is greedy; `top_k` 0 and `top_p` 1 keep every token; `seed` fixes the draws."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        def require(holds: bool, option: str, expected: str) -> None:
            if not holds:
                raise UsageError(
                    "AI-CLI-001",
                    f"{option} is {getattr(self, option)!r}, expected {expected}",
                    fix=f"pass {option} in that range",
                )

        require(
            math.isfinite(self.temperature) and self.temperature >= 0,
            "temperature",
            "a finite number of at least 0",
        )
        require(self.top_k >= 0, "top_k", "0 (off) or the number of tokens to keep")
        require(0 < self.top_p <= 1, "top_p", "a probability above 0 and at most 1")
        require(0 <= self.seed < 2**63, "seed", "a whole number from 0 to 2**63 - 1")


class Sampler:
    """One request's choices, with a generator of its own: in a batch it gives the same as alone."""

    def __init__(self, params: SamplingParams) -> None:
        import torch

        self._params = params
        self._generator = torch.Generator(device="cpu").manual_seed(params.seed)

    def __call__(self, logits: torch.Tensor) -> int:
        """The next token from `logits` `[vocab]`, float32 on the host.

        Raises:
            SimulationError: AI-MODEL-033 when a logit is not a number or infinite, or all are -inf.
        """
        import torch

        broken = torch.isnan(logits) | torch.isposinf(logits)
        if broken.any() or not torch.isfinite(logits).any():
            raise SimulationError(
                "AI-MODEL-033",
                f"{int(broken.sum())} of {logits.numel()} logits are not a number or infinite",
                rule="a decode step produces finite logits",
                fix="try --dtype bfloat16, which does not overflow; or run with --checks on and "
                "--eager to find the operator that produced them",
            )
        if self._params.temperature == 0:
            return int(torch.argmax(logits))
        probabilities = filtered_probabilities(logits, self._params)
        return int(torch.multinomial(probabilities, 1, generator=self._generator))


def filtered_probabilities(logits: torch.Tensor, params: SamplingParams) -> torch.Tensor:
    """Probabilities after temperature, then top-k, then top-p: `[vocab]`, they sum to 1.

    top-p keeps the smallest set of most likely tokens whose probability reaches `top_p`.
    Tokens that tie with the last kept one are kept by top-k, so the result does not depend on
    a sort's order.
    """
    import torch

    scores = logits / params.temperature
    if 0 < params.top_k < scores.numel():
        smallest_kept = torch.topk(scores, params.top_k).values[-1]
        scores = scores.masked_fill(scores < smallest_kept, -math.inf)
    probabilities = torch.softmax(scores, dim=-1)
    if params.top_p < 1:
        ordered, order = torch.sort(probabilities, descending=True, stable=True)
        before = ordered.cumsum(0) - ordered
        dropped = order[before >= params.top_p]
        probabilities = probabilities.index_fill(0, dropped, 0.0)
        probabilities = probabilities / probabilities.sum()
    return probabilities
