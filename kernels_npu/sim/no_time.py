"""What stands where a program expects milliseconds."""

from __future__ import annotations

import math
from typing import Any

from kernels_npu.evidence import Evidence


class NoTime(float):
    """NaN as a number, so that whatever is computed from it stays one, and a text that says why.

    cycles: of the busiest pipe of the launches that were made, by the cost model; None where
    nothing was counted. evidence: modelled. Two of them compare by their cycles, so `min` and
    `sorted` choose what the model prefers; against other numbers only infinity is larger.
    """

    cycles: int | None
    evidence = Evidence.MODELLED

    def __new__(cls, cycles: int | None = None) -> NoTime:
        """A NaN that knows `cycles`."""
        self = super().__new__(cls, math.nan)
        self.cycles = cycles
        return self

    def __str__(self) -> str:
        if self.cycles is None:
            return "nan (no time on a simulated NPU)"
        if not self.cycles:
            return "nan (no time on a simulated NPU; no kernel was launched)"
        return f"nan (no time on a simulated NPU; {self.cycles:,} modelled cycles)"

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        """The same text whatever the precision asked for: there are no digits to round."""
        return str(self)

    def __lt__(self, other: object) -> bool:
        if isinstance(other, NoTime):
            return (self.cycles or 0) < (other.cycles or 0)
        return other == math.inf

    def __gt__(self, other: object) -> bool:
        return isinstance(other, NoTime) and other < self

    def __reduce__(self) -> tuple[Any, ...]:
        return NoTime, (self.cycles,)
