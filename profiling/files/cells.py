"""One cell of text as a value of its column."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from functools import lru_cache

from profiling.records.quantity import Quantity, Value

#: How the profilers write that there is no figure.
MISSING = frozenset({"", "na", "n/a", "none", "null", "-"})


class NotThatQuantity(Exception):
    """A cell does not hold what its column is for."""


@lru_cache(maxsize=1 << 16)
def parse(text: str, quantity: Quantity) -> Value:
    """The value of a cell; start times end with a tab, shapes stand in further quotes.

    Raises:
        NotThatQuantity: the text is no finite number, and the column is one of numbers.
    """
    text = text.strip()
    if text.lower() in MISSING:
        return None
    return _PARSERS[quantity](text)


def _number(text: str) -> int | float:
    # int() and float() allow underscores, which no profiler writes
    if "_" in text or len(text) > _MOST_CHARACTERS:
        raise NotThatQuantity
    try:
        return int(text)
    except ValueError:
        pass
    try:
        value = float(text)
    except ValueError:
        raise NotThatQuantity from None
    if not math.isfinite(value):
        raise NotThatQuantity
    return value


def exact(text: str) -> Decimal:
    """A time in microseconds, with all its digits.

    Raises:
        NotThatQuantity: no finite number that 64-bit nanoseconds hold.
    """
    if "_" in text or len(text) > _MOST_CHARACTERS:
        raise NotThatQuantity
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise NotThatQuantity from None
    # copy_abs: the arithmetic of abs() overflows where a comparison does not
    if not value.is_finite() or value.copy_abs() > LATEST:
        raise NotThatQuantity
    return value


#: Of a number, with a wide margin.
_MOST_CHARACTERS = 60
#: Microseconds that are still 64-bit nanoseconds; beyond the year 2250.
LATEST = Decimal(9_000_000_000_000_000)


def _shape(text: str) -> str:
    return text.strip('"')


def _either(text: str) -> Value:
    try:
        return _number(text)
    except NotThatQuantity:
        return text


_PARSERS: dict[Quantity, Callable[[str], Value]] = {
    **dict.fromkeys(Quantity, _number),
    Quantity.TIMESTAMP: exact,
    Quantity.TEXT: str,
    Quantity.SHAPE: _shape,
    Quantity.UNKNOWN: _either,
}
