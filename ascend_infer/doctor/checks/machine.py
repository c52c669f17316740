"""Python and processor cores."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator

from ascend_infer.doctor.report import BROKEN, OK, Finding, Situation

_PYTHON = ((3, 10), (3, 15))


def python(_: Situation) -> Iterator[Finding]:
    """The interpreter."""
    low, high = _PYTHON
    fits = low <= sys.version_info[:2] < high
    yield Finding(
        name="python",
        verdict=OK if fits else BROKEN,
        evidence=f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        advice="" if fits else f"use Python {low[0]}.{low[1]} to {high[0]}.{high[1] - 1}",
    )


def cores(_: Situation) -> Iterator[Finding]:
    """What the process may use of the processor."""
    affinity = getattr(os, "sched_getaffinity", None)
    usable = len(affinity(0)) if affinity else os.cpu_count()
    yield Finding(name="cpu cores", verdict=OK, evidence=f"{usable} usable of {os.cpu_count()}")
