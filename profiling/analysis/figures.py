"""Figures as numbers, and numbers as sentences have them."""

from __future__ import annotations

import math

from profiling.records.table import Figure

#: Digits beyond these are a damaged cell's, and fill the line.
_BEYOND_REASON = 1e15


def number(figure: Figure | None) -> float:
    """A figure's value; 0 for one without a number, which is not cited."""
    value = None if figure is None else figure.value
    return 0.0 if value is None or isinstance(value, str) else float(value)


def digits(value: float) -> str:
    """A number with as many digits as say something: counts in full, others rounded."""
    if not math.isfinite(value):
        return "NA"
    if float(value).is_integer() and abs(value) < _BEYOND_REASON:
        return f"{int(value):,}"
    return f"{value:,.0f}" if 1e6 <= abs(value) < _BEYOND_REASON else f"{value:,.6g}"


def amount(value: float, unit: str) -> str:
    """A length: cycles are whole numbers, what no launch takes has few digits."""
    if abs(value) >= _BEYOND_REASON:
        return f"{value:.6g} {unit}"
    return f"{value:,.0f} {unit}" if unit == "cycles" else f"{value:.3f} {unit}"
