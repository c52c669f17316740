"""Rounding modes of the vector unit to integral values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kernels_npu.sim.machine.instruction import AnyArray


def round_away(a: AnyArray) -> AnyArray:
    """To the nearest integral value, ties away from zero."""
    # Adding one half would round 0.49999997 up, because the sum is rounded first.
    truncated = np.trunc(a)
    away: AnyArray = truncated + np.copysign(np.abs(a - truncated) >= 0.5, a)
    return away


#: Rounding modes of `T.tile.cast` that lead to an integral value.
INTEGRAL: dict[str, Callable[[AnyArray], AnyArray]] = {
    "CAST_NONE": np.rint,
    "CAST_RINT": np.rint,
    "CAST_FLOOR": np.floor,
    "CAST_CEIL": np.ceil,
    "CAST_ROUND": round_away,
    "CAST_TRUNC": np.trunc,
}
