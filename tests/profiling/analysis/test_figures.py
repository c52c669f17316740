"""Numbers as people read them: counts in full, damage in few digits."""

from __future__ import annotations

import math

import pytest

from profiling.analysis.figures import amount, digits


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1572864.0, "1,572,864"),
        (0.1234567, "0.123457"),
        (1234567.8, "1,234,568"),
        (4.5056e21, "4.5056e+21"),
        (math.inf, "NA"),
        (math.nan, "NA"),
    ],
)
def test_digits(value: float, shown: str) -> None:
    assert digits(value) == shown


def test_amounts() -> None:
    assert amount(12.34567, "us") == "12.346 us"
    assert amount(1234.0, "cycles") == "1,234 cycles"
    assert amount(1e300, "us") == "1e+300 us"
