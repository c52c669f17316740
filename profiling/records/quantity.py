"""What a column of a profiler's file measures, and in which unit."""

from __future__ import annotations

import enum
from decimal import Decimal

#: A cell. `Decimal` is for times since the epoch, of which a float loses the nanoseconds; None is
#: the profiler's `NA`.
Value = int | float | Decimal | str | None


class Quantity(str, enum.Enum):
    """What a column's figures are."""

    TIME = "time"
    TIMESTAMP = "timestamp"
    CYCLES = "cycles"
    RATIO = "ratio"
    PERCENT = "percent"
    BANDWIDTH = "bandwidth"
    VOLUME = "volume"
    MEMORY = "memory"
    FREQUENCY = "frequency"
    COUNT = "count"
    TEXT = "text"
    SHAPE = "shape"
    UNKNOWN = "unknown"

    def __str__(self) -> str:
        return self.value

    @property
    def is_text(self) -> bool:
        """Whether cells stay as they are written."""
        return self in (Quantity.TEXT, Quantity.SHAPE)


#: The unit that the profilers mean. Their KB and GB/s are powers of two.
UNITS = {
    Quantity.TIME: "us",
    Quantity.TIMESTAMP: "us",
    Quantity.CYCLES: "cycles",
    Quantity.PERCENT: "%",
    Quantity.BANDWIDTH: "GiB/s",
    Quantity.VOLUME: "KiB",
    Quantity.MEMORY: "MiB",
    Quantity.FREQUENCY: "MHz",
}
