"""The user's settings of the simulated NPU, turned into its configuration."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernels_npu.errors import UsageError

if TYPE_CHECKING:
    from kernels_npu.sim.config import Checks

#: Schedules under which a kernel must give the same bits: as issued, as late as allowed,
#: random orders.
SCHEDULES = (("eager", 0), ("late", 0), ("random", 1), ("random", 2), ("random", 3))


@dataclass(frozen=True, kw_only=True)
class SimulationOptions:
    """Settings that only the simulated NPU has; ignored on other devices.

    checks: `on`, `off`, or the names of the checks to make, separated by commas.
    schedule: `eager`, `late` or `random` (drawn from `seed`): when asynchronous effects land.
    on_finding: `raise` stops at the first launch with an error-level finding, `report` goes on.
    precise: values of half precision are kept in float32 within a launch.
    """

    checks: str = "on"
    schedule: str = "eager"
    seed: int = 0
    on_finding: str = "raise"
    precise: bool = False


def parse_checks(text: str) -> Checks:
    """The switches that `--checks` means.

    Raises:
        UsageError: AI-CLI-001 for a name that is no check.
    """
    from kernels_npu.sim.config import Checks

    if text == "on":
        return Checks()
    names = {field.name for field in dataclasses.fields(Checks)}
    chosen = set() if text == "off" else {part.strip() for part in text.split(",")}
    unknown = sorted(chosen - names)
    if unknown:
        raise UsageError(
            "AI-CLI-001",
            f"--checks names {', '.join(map(repr, unknown))}",
            rule=f"checks are on, off, or some of: {', '.join(sorted(names))}",
            fix="correct the name",
        )
    return Checks(**{name: name in chosen for name in names})


@contextlib.contextmanager
def simulating(options: SimulationOptions, *, soc: str | None = None) -> Iterator[None]:
    """Launches in the body, also those of threads that it starts, run with `options`.

    soc: the chip to simulate; None keeps the current one.
    """
    from kernels_npu.sim.config import configure_everywhere

    changes = {} if soc is None else {"soc": soc}
    with configure_everywhere(
        checks=parse_checks(options.checks),
        schedule=options.schedule,
        seed=options.seed,
        on_finding=options.on_finding,
        precise=options.precise,
        **changes,
    ):
        yield
