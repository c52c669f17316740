"""What leaving the device costs, and what speeding up a part can gain."""

from __future__ import annotations

import math

from ascend_infer.estimates.work import require_count
from kernels_npu.errors import UsageError

BOUNDARY_FORMULA = "layers x boundaries per layer x seconds per boundary"
AMDAHL_FORMULA = "1 / ((1 - share) + share / speed-up)"
BOUNDARY_ASSUMPTIONS = (
    "boundaries are alike and lie on the critical path; what overlaps costs less",
    "a migration gains the old path's time less compute, conversion, copies and synchronisation "
    "of the new one",
)


def boundary_seconds(layers: int, per_layer: int, seconds: float, *, steps: int = 1) -> float:
    """Time that switching between device and host adds to `steps` decode steps.

    Raises:
        UsageError: AI-EST-001 for numbers that cannot be meant.
    """
    require_count("layers", layers)
    require_count("boundaries per layer", per_layer, 0)
    require_count("steps", steps)
    _require("seconds per boundary", seconds, 0, math.inf)
    return layers * per_layer * seconds * steps


def amdahl(share: float, speedup: float) -> float:
    """How many times faster the whole is, if the part with `share` of its time is `speedup` times.

    Infinity is a speed-up: the part takes no time.

    Raises:
        UsageError: AI-EST-001.
    """
    _require("share", share, 0, 1)
    if not speedup > 0:
        raise _absurd("speed-up", speedup, "above zero")
    rest = 1 - share + share / speedup
    return math.inf if rest == 0 else 1 / rest


def migration_gain(
    old: float, *, compute: float, conversion: float = 0, copies: float = 0, sync: float = 0
) -> float:
    """Seconds that moving operators to the device saves; negative where it costs.

    Raises:
        UsageError: AI-EST-001.
    """
    parts = {"compute": compute, "conversion": conversion, "copies": copies, "sync": sync}
    for name, seconds in {"old path": old, **parts}.items():
        _require(name, seconds, 0, math.inf)
    return old - sum(parts.values())


def _require(name: str, value: float, smallest: float, largest: float) -> None:
    if not (smallest <= value <= largest and math.isfinite(value)):
        raise _absurd(name, value, f"from {smallest:g} to {largest:g}, finite")


def _absurd(name: str, value: float, expected: str) -> UsageError:
    return UsageError(
        "AI-EST-001", f"{name} is {value}", rule=f"{name} is {expected}", fix=f"correct {name}"
    )
