"""Streams, events and the order of accesses."""

from __future__ import annotations

import math
import threading

import pytest
import torch

from kernels_npu.sim import device as simulated


@pytest.fixture
def side():
    """A stream that starts after everything so far."""
    stream = torch.npu.Stream()
    torch.npu.synchronize()
    return stream


def test_streams_have_identity():
    default, stream = torch.npu.default_stream(), torch.npu.Stream()
    assert torch.npu.current_stream() == default and stream != default
    assert default.npu_stream and stream.npu_stream not in (0, default.npu_stream)
    with torch.npu.stream(stream):
        assert torch.npu.current_stream() == stream
        with stream, torch.npu.stream(None):
            assert torch.npu.current_stream() == stream
    assert torch.npu.current_stream() == default
    assert isinstance(stream, torch.Stream) and len({stream, torch.npu.Stream()}) == 2
    pool = {torch.npu.Stream().stream_id for _ in range(80)}
    assert len(pool) == 32  # torch_npu hands out 32 per device


@pytest.mark.parametrize("write_second", [True, False])
def test_unordered_streams_are_reported(side, write_second):
    x = torch.zeros(8, device="npu")
    if not write_second:
        x.fill_(1)
    with torch.npu.stream(side), pytest.raises(RuntimeError) as error:
        x.add_(1) if write_second else x + 1
    assert error.value.code == "AI-STREAM-001"
    assert "test_streams.py:" in str(error.value) and "default stream" not in error.value.rule


@pytest.mark.parametrize("ordering", ["wait_stream", "event", "synchronize", "stream", "item"])
def test_order_is_understood(side, ordering):
    x = torch.zeros(8, device="npu")
    default = torch.npu.current_stream()
    if ordering == "wait_stream":
        side.wait_stream(default)
    elif ordering == "event":
        event = torch.npu.Event()
        event.record()
        side.wait_event(event)
    elif ordering == "synchronize":
        torch.npu.synchronize()
    elif ordering == "stream":
        default.synchronize()
    else:
        x[0].item()
    with torch.npu.stream(side):
        x.add_(1)
    default.wait_stream(side)
    assert x.tolist() == [1.0] * 8


def test_an_event_orders_only_what_came_before_it(side):
    x, y = torch.zeros(4, device="npu"), torch.zeros(4, device="npu")
    event = torch.npu.current_stream().record_event()
    y.add_(1)
    side.wait_event(event)
    with torch.npu.stream(side):
        x + 1
        with pytest.raises(RuntimeError, match="AI-STREAM-001"):
            y + 1


def test_order_is_transitive(side):
    third = torch.npu.Stream()
    x = torch.zeros(4, device="npu")
    side.wait_stream(torch.npu.current_stream())
    third.wait_stream(side)
    with torch.npu.stream(third):
        x.add_(1)


def test_write_after_read_is_reported(side):
    x = torch.zeros(4, device="npu")
    torch.npu.synchronize()
    x + 1
    with torch.npu.stream(side), pytest.raises(RuntimeError, match="write-after-read"):
        x.zero_()


def test_disjoint_bytes_and_two_reads_are_fine(side):
    x = torch.zeros(8, device="npu")
    torch.npu.synchronize()
    x[:4].add_(1)
    with torch.npu.stream(side):
        x[4:].add_(1)
    torch.npu.synchronize()
    x + 1
    with torch.npu.stream(side):
        x + 2


def test_a_new_result_is_not_yet_ordered_for_others(side):
    x = torch.zeros(8, device="npu") + 1
    with torch.npu.stream(side), pytest.raises(RuntimeError, match="AI-STREAM-001"):
        x * 2


def test_backward_follows_the_stream_of_the_caller(side):
    weight = torch.ones(4, device="npu", requires_grad=True)
    torch.npu.synchronize()
    with torch.npu.stream(side):
        (weight * 2).sum().backward()
        assert weight.grad.tolist() == [2.0] * 4


def test_threads_have_their_own_current_stream(side):
    seen = []
    with torch.npu.stream(side):
        thread = threading.Thread(target=lambda: seen.append(torch.npu.current_stream()))
        thread.start()
        thread.join()
    assert seen == [torch.npu.default_stream()]


def test_report_and_off(side):
    x = torch.zeros(4, device="npu")
    simulated.configure(stream_order="report")
    with torch.npu.stream(side):
        x.add_(1)
    (finding,) = simulated.stream_order_findings()
    assert finding.code == "AI-STREAM-001" and finding.second_op == "add_.Tensor"
    simulated.configure(stream_order="off")
    x.add_(1)
    assert len(simulated.stream_order_findings()) == 1
    with pytest.raises(ValueError, match="stream_order"):
        simulated.configure(stream_order="loud")


def test_elapsed_time_is_no_time():
    start, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    start.record()
    with pytest.raises(RuntimeError, match="AI-STREAM-003"):
        start.elapsed_time(end)
    end.record()
    assert end.query()
    end.synchronize()
    assert math.isnan(start.elapsed_time(end) / 10)
    assert "no time" in f"{start.elapsed_time(end):.3f} ms"
    plain = torch.npu.Event()
    plain.record()
    with pytest.raises(RuntimeError, match="enable_timing"):
        plain.elapsed_time(end)


@pytest.mark.parametrize(
    "misuse",
    [
        lambda s: s.wait_stream(None),
        lambda s: s.wait_event(s),
        lambda s: s.record_event(s),
        lambda s: torch.npu.Event().record(s.npu_stream),
        lambda s: torch.npu.Event().wait("default"),
        lambda s: torch.npu.stream(s.npu_stream).__enter__(),
    ],
)
def test_something_else_in_the_place_of_a_stream(misuse, side):
    with pytest.raises(RuntimeError, match="AI-STREAM-005"):
        misuse(side)
    assert torch.npu.current_stream() == torch.npu.default_stream()


def test_generic_streams_and_events_are_the_device_s():
    stream, event = torch.Stream(device="npu"), torch.Event(device="npu")
    assert isinstance(stream, torch.npu.Stream) and isinstance(stream, torch.Stream)
    assert isinstance(event, torch.npu.Event) and isinstance(event, torch.Event)
    assert not isinstance(event, torch.Stream) and not isinstance(stream, torch.Event)
    assert (
        issubclass(torch.npu.Stream, torch.Stream)
        and torch.Stream(device="npu:1").device_index == 1
    )
    x = torch.zeros(4, device="npu")
    event.record()
    with stream:
        with pytest.raises(RuntimeError, match="AI-STREAM-001"):
            x.add_(1)
        event.wait()
        x.add_(1)
    assert repr(event) == "torch.npu.Event(recorded on npu:0)"
    torch.npu.synchronize()


def test_events_misused_are_harmless():
    event = torch.npu.Event()
    event.wait()
    event.synchronize()
    assert event.query() and event.device is None
    for _ in range(2):
        event.record()
    torch.npu.current_stream().wait_event(event)


def test_backward_on_the_second_device_and_from_another_thread(side):
    def train(index):
        weight = torch.ones(4, device=f"npu:{index}", requires_grad=True)
        (weight.to(f"npu:{1 - index}") * 3).sum().backward()
        return weight.grad.tolist()

    assert train(0) == train(1) == [3.0] * 4
    results = []

    def work():
        with torch.npu.stream(torch.npu.Stream()):
            weight = torch.ones(4, device="npu", requires_grad=True)
            (weight * 2).sum().backward()
            results.append(weight.grad.tolist())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert results == [[2.0] * 4]
