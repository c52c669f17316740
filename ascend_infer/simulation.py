"""The user's settings of the simulated NPU, turned into its configuration."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class SimulationOptions:
    """Settings that only the simulated NPU has; ignored on other devices.

    schedule: `eager`, `late` or `random` (drawn from `seed`): when asynchronous effects land.
    """

    checks: bool = True
    schedule: str = "eager"
    seed: int = 0


@contextlib.contextmanager
def simulating(options: SimulationOptions) -> Iterator[None]:
    """Launches in the body run with `options`."""
    from kernels_npu.sim.config import Checks, configure

    checks = Checks() if options.checks else Checks.none()
    with configure(checks=checks, schedule=options.schedule, seed=options.seed):
        yield
