"""What a decode step costs as a function of its rows, padding included."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from graphs.errors import PlanInputError


@dataclass(frozen=True, kw_only=True)
class StepCost:
    """`fixed + per_row * max(rows - free_rows, 0)`, in any unit.

    The default counts rows. `fixed` is what a step costs however small it is; since every plan
    pays it once per step, it changes shares and never the choice of sizes. `free_rows` does: as
    long as a step is bound by reading the weights, rows are free, padding rows included.

    Args:
        fixed: of every step.
        per_row: of every row beyond `free_rows`.
        free_rows: rows that cost nothing beyond `fixed`.

    Raises:
        PlanInputError: AI-GRAPH-042 when a term is negative or not finite.
    """

    fixed: float = 0
    per_row: float = 1
    free_rows: int = 0

    def __post_init__(self) -> None:
        for name in ("fixed", "per_row", "free_rows"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise PlanInputError(
                    "AI-GRAPH-042",
                    f"{name} of a step's cost is {value}",
                    rule="a larger batch never costs less",
                    fix="give finite terms of at least 0",
                )

    def of(self, rows: int) -> Fraction:
        """The cost of one step that computes `rows` rows; exact, so that plans can be compared."""
        return Fraction(self.fixed) + Fraction(self.per_row) * max(rows - self.free_rows, 0)
