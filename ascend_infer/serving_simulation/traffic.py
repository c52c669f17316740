"""Traffic by distributions, sampled into a workload."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ascend_infer.serving_simulation.arrivals import Arrivals
from ascend_infer.serving_simulation.lengths import MOST_TOKENS, Lengths
from ascend_infer.serving_simulation.workload import MOST_REQUESTS, Workload
from kernels_npu.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """requests: how many. prompt: lengths without the shared prefix. prefixes: how many shared
    prefixes there are, each of `prefix_tokens`; every request begins with one of them, drawn
    evenly. 0 for none.

    Raises:
        UsageError: AI-SERVE-001 for numbers that cannot be meant.
    """

    requests: int
    arrivals: Arrivals
    prompt: Lengths
    output: Lengths
    prefixes: int = 0
    prefix_tokens: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        shared = self.prefixes > 0 or self.prefix_tokens > 0
        if (
            not 1 <= self.requests <= MOST_REQUESTS
            or (shared and not (self.prefixes > 0 and 0 < self.prefix_tokens < MOST_TOKENS))
            or self.seed < 0
        ):
            raise UsageError(
                "AI-SERVE-001",
                f"{self.requests} requests, {self.prefixes} shared prefixes of "
                f"{self.prefix_tokens} tokens, seed {self.seed}",
                rule=f"1 to {MOST_REQUESTS:,} requests; prefixes have a number and a length, or "
                "neither; a seed is not negative",
                fix="give both --prefixes and --prefix-tokens, or leave both out",
            )

    def sample(self) -> Workload:
        """The same for the same seed. Lengths do not change with the arrivals, nor the reverse."""
        streams = np.random.default_rng(self.seed).spawn(4)
        count = self.requests
        own = self.prompt.sample(streams[1], count)
        shared = np.full(count, -1, dtype=np.int64)
        if self.prefixes:
            shared = streams[3].integers(0, self.prefixes, count)
        return Workload(
            prompt_tokens=np.minimum(own + self.prefix_tokens, MOST_TOKENS),
            output_tokens=self.output.sample(streams[2], count),
            prefixes=shared,
            prefix_tokens=np.full(count, self.prefix_tokens, dtype=np.int64),
            arrivals=self.arrivals.times(streams[0], count),
            load=self.arrivals.load,
            think=self.arrivals.think,
        )
