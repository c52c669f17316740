"""How long a step takes: the only place where the simulation gets seconds from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from kernels_npu.errors import UsageError

#: Tokens of a prompt that a step computes, and the tokens of it that are in the cache already.
Chunk = tuple[int, int]
#: Seconds of a step, or of a token: more cannot be meant.
LONGEST_SECONDS = 1e5


class StepTime(Protocol):
    """Seconds of a step.

    Between two events of the simulation a step's time is taken to change evenly, which is exact
    where it is a straight line in the context.
    """

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the figures rest on, in sentences."""

    def decode(self, rows: int, live: int, context: int) -> float:
        """Seconds of a decode step of `rows` rows, `live` of which attend to `context` tokens,
        all together; the others are padding."""

    def prefill(self, chunks: Sequence[Chunk], rows: int, live: int, context: int) -> float:
        """Seconds that prompts add to such a step; the whole step's where `rows` is 0."""


@dataclass(frozen=True, kw_only=True)
class GivenStepTime:
    """Constants: seconds per decode step, per token of context, and per token of a prompt.

    Raises:
        UsageError: AI-SERVE-005 for a step that takes no time, or a term that is negative.
    """

    step: float
    per_context_token: float = 0.0
    per_prompt_token: float = 0.0

    def __post_init__(self) -> None:
        terms = (self.step, self.per_context_token, self.per_prompt_token)
        if not all(0 <= term <= LONGEST_SECONDS for term in terms) or self.step <= 0:
            raise UsageError(
                "AI-SERVE-005",
                f"a decode step of {self.step} s, {self.per_context_token} s per token of context, "
                f"{self.per_prompt_token} s per token of a prompt",
                rule=f"a step takes time; no term is negative or above {LONGEST_SECONDS:.0e} s",
                fix="give --step-ms, or --model and --device for an estimate",
            )

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The constants."""
        context = f" and {1e9 * self.per_context_token:g} ns per token of context"
        return (
            f"a decode step takes {1e3 * self.step:g} ms whatever its rows"
            + (context if self.per_context_token else "")
            + ": given",
            f"a prompt takes {1e6 * self.per_prompt_token:g} us per token: given",
        )

    def decode(self, rows: int, live: int, context: int) -> float:
        """The constants, for any number of rows."""
        return self.step + self.per_context_token * context

    def prefill(self, chunks: Sequence[Chunk], rows: int, live: int, context: int) -> float:
        """In proportion to the tokens."""
        return self.per_prompt_token * sum(tokens for tokens, _ in chunks)
