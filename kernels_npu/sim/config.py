"""How the simulated NPU runs: target, schedule and checks. Immutable; scoped by `configure`."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field

from kernels_npu.errors import UsageError
from kernels_npu.sim.debugger.breakpoints import Breakpoint

SCHEDULES = ("eager", "late", "random")


@dataclass(frozen=True, kw_only=True)
class Checks:
    """Which faults are looked for; every check has its own switch and all are on by default.

    races: RAW, WAR and WAW between pipes, cores and blocks, by happens-before.
    flags: unpaired and over-set flags, flags left set at kernel end.
    uninitialised: bytes never written that reach global memory.
    bounds: accesses outside a tensor or buffer.
    alignment: vector and copy operands that do not start on a 32-byte boundary.
    capacity: on-chip memory beyond what the SoC has.
    dtypes: arithmetic in a dtype that the unit lacks.
    settings: options that are silently without effect.
    redundancy: flags and barriers that order nothing (hints; needs `races`).

    Deadlocks are always reported: there is nothing else to do with one.
    """

    races: bool = True
    flags: bool = True
    uninitialised: bool = True
    bounds: bool = True
    alignment: bool = True
    capacity: bool = True
    dtypes: bool = True
    settings: bool = True
    redundancy: bool = True

    @classmethod
    def none(cls) -> Checks:
        """All switches off: the fastest execution."""
        return cls(**{f.name: False for f in dataclasses.fields(cls)})


@dataclass(frozen=True, kw_only=True)
class SimConfig:
    """Settings of a simulated launch.

    soc: name in `kernels_npu.sim.soc`, default Ascend910B1.
    schedule: `eager` (an instruction takes effect when issued), `late` (only when a wait forces it)
        or `random` (any order the flags allow, drawn from `seed`).
    seed: for `random`.
    checks: see `Checks`.
    on_finding: `raise` (default) raises `HazardError` after a launch with an error-level finding;
        `report` only records it, and executes what the compiler would reject as it is written;
        `stop` ends the launch at the first one and records it.
    known: `Finding.identity` of errors at which a launch goes on under `stop`.
    blocks: the only blocks to execute, where no block waits for another one; empty: all.
    precise: values of half precision are kept in float32 within a launch; what the host sees is
        rounded once. Separates a wrong algorithm from a lack of precision.
    breakpoints: where launches stop for Python's debugger.
    loop_limit: iterations after which a `while` in a kernel counts as endless.
    keep_memory: records and reports hold copies of all on-chip buffers as blocks left them.
    count_cores: records hold the counters of every core of every block, besides their sums.
    """

    soc: str = "Ascend910B1"
    schedule: str = "eager"
    seed: int = 0
    checks: Checks = field(default_factory=Checks)
    on_finding: str = "raise"
    known: frozenset[tuple[str, ...]] = frozenset()
    blocks: tuple[int, ...] = ()
    precise: bool = False
    breakpoints: tuple[Breakpoint, ...] = ()
    loop_limit: int = 1_000_000
    keep_memory: bool = False
    count_cores: bool = False

    def __post_init__(self) -> None:
        if self.schedule not in SCHEDULES:
            raise UsageError(
                "AI-CLI-001",
                f"schedule {self.schedule!r} is not one of {', '.join(SCHEDULES)}",
                fix="choose eager, late or random",
            )
        if self.loop_limit < 1:
            raise UsageError(
                "AI-CLI-001",
                f"loop_limit is {self.loop_limit}",
                fix="choose a positive number of iterations",
            )
        if self.on_finding not in ("raise", "report", "stop"):
            raise UsageError(
                "AI-CLI-001",
                f"on_finding {self.on_finding!r} is not one of raise, report, stop",
                fix="choose raise, report or stop",
            )


#: In force where no `configure` block is: also in threads, which start without a context.
_default = SimConfig()
_current: contextvars.ContextVar[SimConfig | None] = contextvars.ContextVar(
    "sim_config", default=None
)


def current_config() -> SimConfig:
    """The configuration of launches made now, in this context."""
    return _current.get() or _default


@contextlib.contextmanager
def configure(config: SimConfig | None = None, /, **changes: object) -> Iterator[SimConfig]:
    """Use `config` (default: the current one) with `changes` applied, inside the `with` block.

    Threads that the block starts do not take part; see `set_default_config`.
    """
    base = current_config() if config is None else config
    updated = dataclasses.replace(base, **changes)  # type: ignore[arg-type]
    token = _current.set(updated)
    try:
        yield updated
    finally:
        _current.reset(token)


def default_config() -> SimConfig:
    """The configuration outside of `configure` blocks."""
    return _default


def set_default_config(config: SimConfig) -> None:
    """Make `config` the one in force in all threads of the process, outside `configure` blocks."""
    global _default
    _default = config


@contextlib.contextmanager
def configure_everywhere(**changes: object) -> Iterator[SimConfig]:
    """Like `configure`, and in force in all other threads of the process as well."""
    before = default_config()
    with configure(**changes) as config:
        set_default_config(config)
        try:
            yield config
        finally:
            set_default_config(before)
