"""Routings to plan and test with, when no router's output is at hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from kernels_npu.errors import UsageError

#: Most (token, expert) pairs, and most scores, that are drawn.
_MOST_SCORES = 1 << 27

#: Name -> how likely each of n experts is to be chosen.
ROUTINGS: Mapping[str, Callable[[int], NDArray[np.float64]]] = {
    "uniform": lambda experts: np.ones(experts),
    "zipf": lambda experts: 1.0 / np.arange(1, experts + 1),
}
#: All tokens go to the first experts: the worst balance there is.
FIRST = "first"


def sample_routing(
    kind: str, *, tokens: int, top_k: int, num_experts: int, seed: int = 0
) -> NDArray[np.int64]:
    """[tokens, top_k] distinct experts per token: `uniform`, `zipf` (the n-th expert 1/n as likely
    as the first), or `first` (always the first `top_k`).

    Raises:
        UsageError: AI-MOE-002 for sizes that no router has, or an unknown kind.
    """
    if (
        (kind not in ROUTINGS and kind != FIRST)
        or tokens < 0
        or not 1 <= top_k <= num_experts
        or tokens * num_experts > _MOST_SCORES
    ):
        raise UsageError(
            "AI-MOE-002",
            f"a routing {kind!r} of {tokens} tokens to {top_k} of {num_experts} experts",
            rule=f"a routing is {', '.join((*ROUTINGS, FIRST))}; top_k is at least 1 and at most "
            f"the experts; tokens times experts at most {_MOST_SCORES}",
            fix="plan one step's tokens, not a whole run's",
        )
    if kind == FIRST:
        return np.tile(np.arange(top_k), (tokens, 1))
    # The largest of log-weights plus Gumbel noise are a draw without repetition.
    noise = np.random.default_rng(seed).gumbel(size=(tokens, num_experts))
    scores = np.log(ROUTINGS[kind](num_experts)) + noise
    chosen: NDArray[np.int64] = np.argsort(-scores, axis=1)[:, :top_k]
    return chosen
