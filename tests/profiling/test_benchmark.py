"""Timing: what is among the samples, what is warned of, what is refused. The clock is a fake."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest
import torch

from kernels_npu.errors import AscendInferError, UsageError
from profiling import benchmark
from profiling.benchmark import BenchOptions, contaminated_mean, do_bench


@pytest.fixture
def device(monkeypatch):
    """A device whose clock advances by what each call says it takes; calls are written down."""
    state = SimpleNamespace(now=0.0, calls=[], flushed=0)

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            self.at = state.now

        def elapsed_time(self, other):
            return other.at - self.at

    module = SimpleNamespace(
        Event=Event, synchronize=lambda: None, get_device_name=lambda _: "a device"
    )
    real_empty = torch.empty

    class Buffer:
        def zero_(self):
            state.flushed += 1

    monkeypatch.setattr(torch, "get_device_module", lambda _: module)
    monkeypatch.setattr(
        torch,
        "empty",
        lambda *a, **k: Buffer() if "device" in k else real_empty(*a, **k),
    )
    state.device = torch.device("cuda:0")
    return state


def takes(state, milliseconds):
    def call(name):
        state.calls.append(name)
        state.now += milliseconds(len(state.calls))

    return call


def test_inputs_take_turns_and_the_cache_is_emptied(device):
    options = BenchOptions(warm_up_ms=0, repetitions=9)
    timing = do_bench(
        takes(device, lambda n: 0.35),
        [("a",), ("b",)],
        device.device,
        mode="graph",
        options=options,
    )
    assert device.calls == ["a", "a", "b", *"ababababa"]  # first call, warm-up, samples
    assert device.flushed == 9 and timing.cold_cache
    assert timing.samples.count == 9 and timing.samples.median == pytest.approx(350.0)
    assert timing.to_dict()["evidence"] == "gpu-measured"


def test_the_warm_up_that_is_left_out_would_have_raised_the_mean():
    assert contaminated_mean(0.350, 3200.0, 100) == pytest.approx(32.350)
    assert round(contaminated_mean(0.350, 3200.0, 100) / 0.350, 2) == 92.43


def test_warnings(device, monkeypatch):
    clock = itertools.count(0, 1e-3)  # every look at the host's clock is a millisecond later
    monkeypatch.setattr(benchmark.time, "perf_counter", lambda: next(clock))
    options = BenchOptions(warm_up_ms=0, repetitions=60, flush_bytes=0)
    call = takes(device, lambda n: 0.1 if n < 40 else 0.2)
    timing = do_bench(call, [("a",)], device.device, mode="eager", options=options)
    text = "\n".join(timing.warnings)
    assert "not steady: median of the first quarter 100.00 us, of the last 200.00 us" in text
    assert "L2 cache was not emptied" in text
    assert "host-bound: the host takes 1000.0 us" in text
    assert timing.samples.quantiles[0.9] is not None and timing.samples.quantiles[0.95] is None


def test_a_slow_first_call_is_told_and_left_out(device, monkeypatch):
    clock = itertools.count(0, 1e-6)
    monkeypatch.setattr(benchmark.time, "perf_counter", lambda: next(clock))

    def call(name):
        device.now += 0.1
        if not device.calls:
            for _ in range(5000):  # what happens once takes the host 5 ms
                next(clock)
        device.calls.append(name)

    options = BenchOptions(warm_up_ms=0, repetitions=10)
    timing = do_bench(call, [("a",)], device.device, mode="graph", options=options)
    assert timing.samples.high == pytest.approx(100.0)
    (warning,) = timing.warnings
    assert "the first call took 500" in warning and "raise the mean to 600" in warning


def test_a_clean_measurement_has_no_warnings(device, monkeypatch):
    clock = itertools.count(0, 1e-6)
    monkeypatch.setattr(benchmark.time, "perf_counter", lambda: next(clock))
    options = BenchOptions(warm_up_ms=0, repetitions=500)
    call = takes(device, lambda n: 0.1)
    timing = do_bench(call, [("a",)], device.device, mode="graph", options=options)
    assert timing.warnings == () and timing.samples.quantiles[0.99] == pytest.approx(100.0)


@pytest.mark.parametrize("name", ["cpu", "npu"])
def test_devices_without_a_clock(name):
    from kernels_npu.sim import device as simulated

    simulated.enable()
    with pytest.raises(AscendInferError, match="AI-BENCH-008"):
        do_bench(lambda: None, [()], torch.device(name), mode="eager")


def test_wrong_options(device):
    with pytest.raises(UsageError, match="AI-BENCH-007"):
        BenchOptions(repetitions=0)
    for mode, sets in (("both", [()]), ("eager", [])):
        with pytest.raises(UsageError, match="AI-BENCH-007"):
            do_bench(lambda: None, sets, device.device, mode=mode)


@pytest.mark.gpu
def test_on_a_device():
    x = torch.randn(4096, 4096, device="cuda")
    timing = do_bench(torch.mul, [(x, 2.0)], x.device, mode="eager")
    assert 20 < timing.samples.median < 2000  # 128 MiB at 0.1 to 5 TB/s
