"""What is asked of the server: requests with lengths, shared prefixes and arrivals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ascend_infer.serving_simulation.lengths import MOST_TOKENS
from kernels_npu.errors import UsageError
from profiling.serving_metrics import Load

#: Of all requests together: the times of all tokens are kept, 8 bytes each.
MOST_OUTPUT_TOKENS = 50_000_000
MOST_REQUESTS = 2_000_000
#: Some thirty years: beyond, steps of milliseconds vanish in the rounding of times.
LATEST_SECONDS = 1e9

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Workload:
    """Requests in the order of their arrival; all arrays have one entry per request.

    prompt_tokens: shared prefix included. output_tokens: the first and the end-of-sequence token
    included. prefixes: number of the shared prefix that a prompt begins with, -1 for none.
    prefix_tokens: its length; the same for all requests that share it.
    arrivals: seconds, ascending; None in a closed loop, where a request arrives `think` seconds
    after another is over, `load.concurrency` of them at a time.

    Raises:
        UsageError: AI-SERVE-001 for arrays that contradict each other; AI-SERVE-006 for more than
            fits into memory.
    """

    prompt_tokens: Ints
    output_tokens: Ints
    prefixes: Ints
    prefix_tokens: Ints
    arrivals: Floats | None
    load: Load
    think: float = 0.0

    def __post_init__(self) -> None:
        count, output = len(self.prompt_tokens), int(self.output_tokens.sum())
        if count > MOST_REQUESTS or output > MOST_OUTPUT_TOKENS:
            raise UsageError(
                "AI-SERVE-006",
                f"{count:,} requests with {output:,} output tokens",
                rule=f"a simulation keeps the time of every token: at most {MOST_REQUESTS:,} "
                f"requests and {MOST_OUTPUT_TOKENS:,} tokens",
                fix="simulate fewer requests; steady figures need some thousands",
            )
        for problem in self._problems(count):
            raise UsageError(
                "AI-SERVE-001",
                problem,
                rule="at least one request; lengths from 1; times that ascend from 0 to at most "
                f"{LATEST_SECONDS:.0e} s",
                fix="look at the line of the trace, or at the option that says so",
            )

    def _problems(self, count: int) -> list[str]:
        lengths = {"prompt": self.prompt_tokens, "output": self.output_tokens}
        found = ["there is no request"] if not count else []
        for name, tokens in lengths.items():
            wrong = np.flatnonzero((tokens < 1) | (tokens > MOST_TOKENS))
            found += [f"request {i} has {tokens[i]} {name} tokens" for i in wrong[:1]]
        outside = np.flatnonzero(
            (self.prefix_tokens < 0) | (self.prefix_tokens > self.prompt_tokens)
        )
        found += [
            f"request {i} has {self.prefix_tokens[i]} prefix tokens in a prompt of "
            f"{self.prompt_tokens[i]}"
            for i in outside[:1]
        ]
        shared = self.prefixes >= 0
        pairs = np.unique(np.stack([self.prefixes[shared], self.prefix_tokens[shared]]), axis=1)
        names, times = np.unique(pairs[0], return_counts=True)
        found += [f"prefix {name} has two lengths" for name in names[times > 1][:1]]
        if not 0 <= self.think <= LATEST_SECONDS:
            found.append(f"clients think for {self.think} seconds")
        if self.arrivals is not None:
            bad = ~((self.arrivals >= 0) & (self.arrivals <= LATEST_SECONDS))
            bad[1:] |= np.diff(self.arrivals) < 0
            found += [f"request {i} arrives at {self.arrivals[i]}" for i in np.flatnonzero(bad)[:1]]
        return found
