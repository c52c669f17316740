"""Figures as numbers, and numbers as sentences have them."""

from __future__ import annotations

from profiling.records.table import Figure

#: Digits beyond these are a damaged cell's, and fill the line.
_BEYOND_REASON = 1e15


def number(figure: Figure | None) -> float:
    """A figure's value; 0 for one without a number, which is not cited."""
    value = None if figure is None else figure.value
    return 0.0 if value is None or isinstance(value, str) else float(value)


def amount(value: float, unit: str) -> str:
    """A length: cycles are whole numbers, what no launch takes has few digits."""
    if abs(value) >= _BEYOND_REASON:
        return f"{value:.6g} {unit}"
    return f"{value:,.0f} {unit}" if unit == "cycles" else f"{value:.3f} {unit}"
