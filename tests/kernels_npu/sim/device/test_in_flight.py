"""Page-locked memory that is written while a copy from it is in flight, and the ways to wait."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest
import torch

from kernels_npu.sim import device as simulated
from kernels_npu.sim.device import in_flight


def staging(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(shape, generator=generator).pin_memory()


def copy_into(target: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    return target.copy_(source, non_blocking=True)


def copy_to(target: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    return source.to("npu", non_blocking=True)


def through_torch(source: torch.Tensor) -> None:
    source.add_(1)


def through_numpy(source: torch.Tensor) -> None:
    source.numpy()[1] = np.float32(7)


def through_a_view(source: torch.Tensor) -> None:
    source[2:].zero_()


WRITES = [through_torch, through_numpy, through_a_view]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("copy", [copy_into, copy_to])
def test_a_write_before_the_host_waits_is_found(
    copy: Callable[..., torch.Tensor], write: Callable[[torch.Tensor], None]
) -> None:
    target, source = torch.zeros(5, 3, device="npu"), staging(5, 3)
    copied = copy(target, source)
    write(source)
    with pytest.raises(RuntimeError, match=r"was written while the asynchronous copy") as error:
        copied.cpu()
    assert error.value.code == "AI-STREAM-006"
    assert "test_in_flight.py:" in str(error.value) and "default stream" in str(error.value)
    assert copied.cpu().shape == (5, 3)  # said once


@pytest.mark.parametrize("write", WRITES)
def test_the_next_copy_from_the_same_memory_is_late_too(write: Callable[..., None]) -> None:
    target, source = torch.zeros(2, 5, 3, device="npu"), staging(5, 3)
    copy_into(target[0], source)
    write(source)
    with pytest.raises(RuntimeError, match="AI-STREAM-006"):
        copy_into(target[1], source)


def wait_event(event: torch.npu.Event) -> None:
    event.synchronize()


def poll_event(event: torch.npu.Event) -> None:
    assert event.query()


def wait_stream(event: torch.npu.Event) -> None:
    torch.npu.current_stream().synchronize()


def poll_stream(event: torch.npu.Event) -> None:
    assert torch.npu.current_stream().query()


def wait_device(event: torch.npu.Event) -> None:
    torch.npu.synchronize()


@pytest.mark.parametrize("wait", [wait_event, poll_event, wait_stream, poll_stream, wait_device])
def test_who_waits_may_write(wait: Callable[[torch.npu.Event], None]) -> None:
    target, source = torch.zeros(5, 3, device="npu"), staging(5, 3)
    for step in range(3):
        copy_into(target, source.fill_(step))
        event = torch.npu.Event()
        event.record()
        wait(event)
    assert target.cpu().eq(2).all()


def test_an_event_before_the_copy_does_not_help() -> None:
    target, source = torch.zeros(5, 3, device="npu"), staging(5, 3)
    event = torch.npu.Event()
    event.record()
    copy_into(target, source)
    event.synchronize()
    source.zero_()
    with pytest.raises(RuntimeError, match="AI-STREAM-006"):
        torch.npu.synchronize()


def test_blocking_copies_pageable_memory_and_other_memory_are_free() -> None:
    target = torch.zeros(5, 3, device="npu")
    pinned, pageable = staging(5, 3), torch.ones(5, 3)
    target.copy_(pinned)
    pinned.zero_()
    copy_into(target, pageable)
    pageable.zero_()
    copy_into(target[:2], pinned[:2])
    pinned[2:].fill_(4)  # another part of the same allocation
    torch.npu.synchronize()
    assert target[:2].cpu().eq(0).all()


def test_a_large_source_is_watched_by_its_version() -> None:
    target, source = torch.zeros(600, 1000, device="npu"), staging(600, 1000)
    copy_into(target, source)
    torch.npu.synchronize()
    copy_into(target, source)
    source[3].zero_()
    with pytest.raises(RuntimeError, match="AI-STREAM-006"):
        torch.npu.synchronize()


def test_a_replay_copies_anew() -> None:
    static, source = torch.zeros(5, 3, device="npu"), staging(5, 3)
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        copy_into(static, source)
        result = static * 2
    source.fill_(3)  # nothing was copied yet
    graph.replay()
    assert result.cpu().eq(6).all()
    source.fill_(4)
    graph.replay()
    source.fill_(5)
    with pytest.raises(RuntimeError, match="AI-STREAM-006"):
        torch.npu.synchronize()


def test_it_can_be_a_finding_or_nothing() -> None:
    from kernels_npu.sim.device.state import process

    target, source = torch.zeros(5, 3, device="npu"), staging(5, 3)
    for mode, expected in (("report", 1), ("off", 0)):
        simulated.configure(stream_order=mode)
        process.findings.clear()
        copy_into(target, source)
        source.add_(1)
        torch.npu.synchronize()
        assert [f.code for f in process.findings] == ["AI-STREAM-006"] * expected


def test_a_program_that_never_waits_holds_few_copies() -> None:
    from kernels_npu.sim.device import in_flight

    target = torch.zeros(4, device="npu")
    sources = [staging(4) for _ in range(300)]
    for source in sources:
        copy_into(target, source)
    assert len(in_flight._flights) <= 256
    torch.npu.synchronize()
    assert not in_flight._flights


def test_no_wait_returns_before_the_copy_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads wait for one copy; the second may write its source as soon as it has waited."""
    judging, written, errors = threading.Event(), threading.Event(), []
    judge = in_flight._judge

    def slowly(flight: in_flight.Flight) -> None:
        judging.set()
        written.wait(0.2)  # longer than the other thread needs, had it not to wait
        judge(flight)

    def wait() -> None:
        try:
            event.synchronize()
        except RuntimeError as error:
            errors.append(error)

    monkeypatch.setattr(in_flight, "_judge", slowly)
    source = staging(5, 3)
    copy_to(source, source)
    event = torch.npu.Event()
    event.record()
    first = threading.Thread(target=wait)
    first.start()
    assert judging.wait(10)
    wait()
    through_torch(source)
    written.set()
    first.join()
    assert not errors
