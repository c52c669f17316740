"""Decisions by hypothesis, which shrinks what fails. Needs the package hypothesis."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from kernels_npu.sim.fuzzing.draw import Option
from kernels_npu.sim.fuzzing.properties import Property


class HypothesisDraw:
    """A `Draw` whose decisions hypothesis makes."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data

    def integer(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both included."""
        return self._data.draw(st.integers(low, high))

    def choice(self, options: Sequence[Option]) -> Option:
        """One of `options`."""
        return options[self.integer(0, len(options) - 1)]


def explore(check: Property, *, examples: int, number: int) -> None:
    """Look for a violation of `check` in `examples` kernels.

    Raises:
        Violation: the simplest one, when there is any.
    """

    @seed(number)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(st.data())
    def run(data: st.DataObject) -> None:
        check(HypothesisDraw(data))

    run()
