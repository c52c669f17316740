"""Timing a call on a device, without the mistakes that change a figure by a factor.

What is timed lies between two events of the device's stream, after a warm-up; in between two
samples the L2 cache is overwritten and the next set of inputs is taken. The first call, which may
compile, tune or grow a pool, is timed by itself and left out. Eager calls and replays of graphs are
different measurements and say so. The simulated device has no time and is refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from kernels_npu import dialect
from kernels_npu.errors import UnsupportedError, UsageError
from kernels_npu.evidence import Evidence
from profiling.summary import Summary, summarise

#: torch.npu or torch.cuda.
TorchNamespace: TypeAlias = Any
MODES = ("eager", "graph")
#: A first call this many times slower than the others, and by this many microseconds, did something
#: that happens once.
ONCE, ONCE_US = 3.0, 1000.0
#: Medians of the first and the last quarter of the samples that differ by more are a trend.
TREND = 0.05


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """How a call is timed.

    warm_up_ms: calls that are not timed, for at least so long. repetitions: samples.
    flush_bytes: written between samples to empty the L2 cache; 0 leaves the cache warm, which is
    another measurement.

    Raises:
        UsageError: AI-BENCH-007 for less than one repetition, or a negative time or size.
    """

    warm_up_ms: float = 25.0
    repetitions: int = 100
    flush_bytes: int = 256 << 20

    def __post_init__(self) -> None:
        if self.repetitions < 1 or self.warm_up_ms < 0 or self.flush_bytes < 0:
            raise UsageError(
                "AI-BENCH-007",
                f"repetitions={self.repetitions}, warm_up_ms={self.warm_up_ms}, "
                f"flush_bytes={self.flush_bytes}",
                rule="at least one repetition; times and bytes are not negative",
                fix="leave the options out, or give at least one repetition",
            )


@dataclass(frozen=True, kw_only=True)
class Timing:
    """The outcome, in microseconds of the device's clock; `host_us` of the host's.

    first_call_us: host time of the first call until the device was done. host_us: median time that
    the host takes to issue a call. warnings: why the figures may not mean what they seem to.
    """

    mode: str
    device: str
    samples: Summary
    first_call_us: float
    host_us: float
    cold_cache: bool
    evidence: Evidence
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready fields."""
        return {
            **vars(self),
            "samples": self.samples.to_dict(),
            "evidence": str(self.evidence),
            "warnings": list(self.warnings),
        }


def do_bench(
    call: Callable[..., object],
    argument_sets: Sequence[tuple[Any, ...]],
    device: torch.device,
    *,
    mode: str,
    options: BenchOptions = BenchOptions(),
) -> Timing:
    """Time `call(*arguments)` on the current stream of `device`, the sets of arguments in turns.

    call: an operator, or the replay of a captured graph. mode: which of the two, `eager` or
    `graph`; a measurement never mixes them.

    Raises:
        UsageError: AI-BENCH-007 for an unknown mode, or no set of arguments.
        UnsupportedError: AI-BENCH-008 for a device without a clock of its own.
    """
    if mode not in MODES or not argument_sets:
        raise UsageError(
            "AI-BENCH-007",
            f"mode={mode!r} with {len(argument_sets)} sets of arguments",
            rule=f"a measurement is of one of {', '.join(MODES)}, with at least one set",
            fix="time eager calls and replays in measurements of their own",
        )
    evidence = _evidence(device)
    module = torch.get_device_module(device)
    flush = torch.empty(options.flush_bytes, dtype=torch.int8, device=device)
    first = _timed_by_host(lambda: call(*argument_sets[0]), module)
    _warm_up(call, argument_sets, module, options.warm_up_ms)
    events, host = [], []
    for number in range(options.repetitions):
        arguments = argument_sets[number % len(argument_sets)]
        before, after = (module.Event(enable_timing=True) for _ in range(2))
        flush.zero_()
        before.record()
        started = time.perf_counter()
        call(*arguments)
        host.append((time.perf_counter() - started) * 1e6)
        after.record()
        events.append((before, after))
    module.synchronize()
    microseconds = [before.elapsed_time(after) * 1e3 for before, after in events]
    samples = summarise(microseconds, "us")
    host_us = summarise(host, "us").median
    return Timing(
        mode=mode,
        device=str(module.get_device_name(device)),
        samples=samples,
        first_call_us=first,
        host_us=host_us,
        cold_cache=options.flush_bytes > 0,
        evidence=evidence,
        warnings=tuple(_warnings(microseconds, samples, first, host_us, mode, options)),
    )


def contaminated_mean(steady: float, once: float, count: int) -> float:
    """The mean of `count` samples that take `steady` each, when what happens once is among them."""
    return steady + once / count


def _evidence(device: torch.device) -> Evidence:
    if device.type == "cuda":
        return Evidence.GPU_MEASURED
    if device.type == "npu" and not dialect.device_is_simulated():
        return Evidence.NPU_MEASURED
    raise UnsupportedError(
        "AI-BENCH-008",
        f"{device} has no clock of its own to time a kernel with",
        rule="simulated time is never shown as time, and a host's clock says nothing of a device",
        fix="count bytes and modelled cycles with kernels_npu.sim.collect_report, or time on npu",
    )


def _timed_by_host(call: Callable[[], object], module: TorchNamespace) -> float:
    module.synchronize()
    started = time.perf_counter()
    call()
    module.synchronize()
    return (time.perf_counter() - started) * 1e6


def _warm_up(
    call: Callable[..., object],
    argument_sets: Sequence[tuple[Any, ...]],
    module: TorchNamespace,
    milliseconds: float,
) -> None:
    """Every set of arguments at least once, then until the time is over."""
    until = time.perf_counter() + milliseconds / 1e3
    for arguments in argument_sets:
        call(*arguments)
    module.synchronize()
    while time.perf_counter() < until:
        call(*argument_sets[0])
        module.synchronize()


def _warnings(
    microseconds: list[float],
    samples: Summary,
    first: float,
    host_us: float,
    mode: str,
    options: BenchOptions,
) -> list[str]:
    found = []
    usual = max(samples.median, host_us)
    if first > ONCE * usual and first > usual + ONCE_US:
        found.append(
            f"the first call took {first:.0f} us (compilation, tuning, pools) and is left out: "
            f"among the {samples.count} samples it would raise the mean to "
            f"{contaminated_mean(samples.mean, first, samples.count):.1f} us"
        )
    quarter = len(microseconds) // 4
    if quarter >= 5:
        early = summarise(microseconds[:quarter], "us").median
        late = summarise(microseconds[-quarter:], "us").median
        if abs(late - early) > TREND * early:
            found.append(
                f"not steady: median of the first quarter {early:.2f} us, of the last {late:.2f} us"
            )
    if not options.flush_bytes:
        found.append("the L2 cache was not emptied: data that fits it is not read from memory")
    if mode == "eager" and host_us > samples.median:
        found.append(
            f"host-bound: the host takes {host_us:.1f} us to issue a call, so the device waits; "
            "time the replay of a graph"
        )
    return found
