"""Task groups and external events: what an update changes, in which order, and what is refused."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator

import pytest
import torch

from kernels_npu.sim.device.state import process
from tests.kernels_npu.sim.device.kernels import increment, scaled_sum

COLUMNS = 24


@pytest.fixture(autouse=True)
def nothing_stands_still() -> Iterator[None]:
    yield
    stalled = [s for d in process.devices for s in d.streams.values() if s.stalled is not None]
    for stream in stalled:
        stream.stalled = None
    assert not stalled


class Incremented:
    """A graph of `y = (x + 1) * 2; y += amount`, where `amount` is a host argument."""

    def __init__(self, *, with_event: bool = True, close: bool = True) -> None:
        self.kernel = increment(COLUMNS)
        self.x = torch.randn(3, COLUMNS).npu()
        self.y = torch.zeros(3, COLUMNS, device="npu")
        self.event = torch.npu.ExternalEvent()
        self.update_stream = torch.npu.Stream()
        self.graph = torch.npu.NPUGraph()
        torch.npu.synchronize()
        with torch.npu.graph(self.graph):
            stream = torch.npu.current_stream()
            self.y.copy_((self.x + 1) * 2)
            if with_event:
                self.event.wait(stream)
                self.event.reset(stream)
            torch.npu.graph_task_group_begin(stream)
            self.kernel(self.y, 0.0)
            if close:
                self.handle = torch.npu.graph_task_group_end(stream)
            self.z = self.y.abs()

    @contextlib.contextmanager
    def updating(self) -> Iterator[None]:
        with torch.npu.stream(self.update_stream):
            torch.npu.graph_task_update_begin(self.update_stream, self.handle)
            try:
                yield
            finally:
                torch.npu.graph_task_update_end(self.update_stream)

    def update(self, amount: float) -> None:
        with self.updating():
            self.kernel(self.y, amount)
        self.event.record(self.update_stream)

    def check(self, amount: float) -> None:
        expected = (self.x.cpu() + 1) * 2 + amount
        torch.testing.assert_close(self.y.cpu(), expected)
        torch.testing.assert_close(self.z.cpu(), expected.abs())


def test_an_update_changes_the_next_replays_and_executes_nothing():
    case = Incremented()
    for amount in (random.uniform(-9, 9) for _ in range(3)):
        before = case.y.cpu()
        case.update(amount)
        assert torch.equal(case.y.cpu(), before)
        case.graph.replay()
        case.check(amount)


def test_a_replay_waits_for_the_update_that_comes_after_it():
    """The order of vllm-ascend: replay first, then update while the device is busy."""
    case = Incremented()
    case.x.copy_(torch.randn(3, COLUMNS))
    case.graph.replay()
    case.update(2.5)
    case.check(2.5)
    torch.npu.synchronize()
    case.graph.replay()
    case.update(-1.5)
    case.check(-1.5)


def test_each_replay_needs_its_own_record():
    case = Incremented()
    case.update(1.0)
    case.graph.replay()
    case.check(1.0)
    case.graph.replay()
    with pytest.raises(RuntimeError, match="AI-CAP-025: the host waits for") as error:
        torch.npu.synchronize()
    assert "never ends" in error.value.rule
    with pytest.raises(RuntimeError, match="AI-CAP-025: the host waits for"):
        torch.npu.current_stream().synchronize()
    with pytest.raises(RuntimeError, match=r"AI-CAP-025: add.Tensor comes behind"):
        case.y + 1
    with pytest.raises(RuntimeError, match="AI-CAP-025: increment comes behind"):
        case.kernel(case.y, 1.0)
    with pytest.raises(RuntimeError, match="AI-CAP-025: the replay comes behind"):
        case.graph.replay()
    case.event.record(case.update_stream)  # unchanged arguments need no update
    case.check(1.0)


def test_several_groups_are_updated_one_by_one():
    kernel, stream = increment(COLUMNS), torch.npu.Stream()
    y = torch.zeros(1, COLUMNS, device="npu")
    events, handles = [torch.npu.ExternalEvent() for _ in range(3)], []
    graph = torch.npu.NPUGraph()
    torch.npu.synchronize()
    with torch.npu.graph(graph):
        current = torch.npu.current_stream()
        y.zero_()
        for event in events:
            event.wait(current)
            event.reset(current)
            torch.npu.graph_task_group_begin(current)
            kernel(y, 0.0)
            handles.append(torch.npu.graph_task_group_end(current))
            y.mul_(2)
    graph.replay()
    with torch.npu.stream(stream):
        for event, handle, amount in zip(events, handles, (1.0, 2.0, 3.0)):
            torch.npu.graph_task_update_begin(stream, handle)
            kernel(y, amount)
            torch.npu.graph_task_update_end(stream)
            event.record(stream)
    assert y.eq(((1 * 2 + 2) * 2 + 3) * 2).all().item()


def test_torch_operations_can_be_updated():
    x, out = torch.randn(5).npu(), torch.zeros(5, device="npu")
    graph, side = torch.npu.NPUGraph(), torch.npu.Stream()
    with torch.npu.graph(graph):
        torch.npu.graph_task_group_begin(torch.npu.current_stream())
        torch.mul(x, 2.0, out=out)
        handle = torch.npu.graph_task_group_end(torch.npu.current_stream())
    graph.replay()
    assert torch.equal(out.cpu(), x.cpu() * 2)
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        torch.npu.graph_task_update_begin(side, handle)
        torch.mul(x, 7.0, out=out)
        torch.npu.graph_task_update_end(side)
    torch.npu.current_stream().wait_stream(side)
    graph.replay()
    assert torch.equal(out.cpu(), x.cpu() * 7)


def test_an_update_of_tasks_that_may_be_running_is_unordered():
    case = Incremented(with_event=False)
    side = torch.npu.Stream()
    torch.npu.synchronize()
    with torch.npu.stream(side):
        case.graph.replay()
    with pytest.raises(RuntimeError, match=r"AI-STREAM-001.*task update.*replay of a task group"):
        case.update(1.0)
    torch.npu.synchronize()
    case.update(1.0)
    with torch.npu.stream(side), pytest.raises(RuntimeError, match="AI-STREAM-001"):
        case.graph.replay()  # nothing orders it after the update
    side.wait_stream(case.update_stream)
    with torch.npu.stream(side):
        case.graph.replay()


# ------------------------------------------------------------------------------------ out of place


def test_a_group_that_is_not_closed():
    with pytest.raises(RuntimeError, match="107033") as error:
        Incremented(close=False)
    assert error.value.code == "AI-CAP-022" and error.value.acl_error == 107033
    assert not torch.npu.is_current_stream_capturing()


def test_groups_out_of_place():
    stream = torch.npu.Stream()
    for call in (torch.npu.graph_task_group_begin, torch.npu.graph_task_group_end):
        with pytest.raises(RuntimeError, match=r"AI-CAP-022.*is not being captured"):
            call(stream)

    def capturing(body):
        with torch.npu.graph(torch.npu.NPUGraph()):
            body(torch.npu.current_stream())

    def nested(current):
        torch.npu.graph_task_group_begin(current)
        torch.npu.graph_task_group_begin(current)

    with pytest.raises(RuntimeError, match="a task group is open already"):
        capturing(nested)
    with pytest.raises(RuntimeError, match="no task group is open"):
        capturing(torch.npu.graph_task_group_end)
    external = torch.npu.ExternalStream(4711)
    for call in (torch.npu.graph_task_group_begin, torch.npu.ExternalEvent().record):
        with pytest.raises(RuntimeError, match="External NPU stream is not supported"):
            call(external)


def test_updates_out_of_place():
    case = Incremented()
    side = case.update_stream
    with pytest.raises(RuntimeError, match="no update has begun"):
        torch.npu.graph_task_update_end(side)
    with case.updating():
        case.kernel(case.y, 1.0)
        with pytest.raises(RuntimeError, match="is updating tasks already"):
            torch.npu.graph_task_update_begin(side, case.handle)
        assert not torch.npu.is_current_stream_capturing()
    with torch.npu.graph(torch.npu.NPUGraph()):
        stream = torch.npu.current_stream()
        with pytest.raises(RuntimeError, match="is captured"):
            torch.npu.graph_task_update_begin(stream, case.handle)
    case.graph.reset()
    with pytest.raises(RuntimeError, match="belongs to no finished graph"):
        torch.npu.graph_task_update_begin(side, case.handle)


OTHER_WORK = {
    "nothing": lambda case: None,
    "twice": lambda case: [case.kernel(case.y, 1.0) for _ in range(2)],
    "another operation": lambda case: case.y.add_(1.0),
}


@pytest.mark.parametrize("name", OTHER_WORK)
def test_other_work_cannot_take_the_place_of_a_group(name):
    case = Incremented()
    with pytest.raises(RuntimeError, match="207019") as error, case.updating():
        OTHER_WORK[name](case)
    assert error.value.code == "AI-CAP-023" and "captured increment" in str(error.value)
    case.update(3.0)
    case.graph.replay()
    case.check(3.0)


def test_copies_cannot_be_updated():
    x, source = torch.zeros(3, device="npu"), torch.ones(3).pin_memory()
    graph, side = torch.npu.NPUGraph(), torch.npu.Stream()
    with torch.npu.graph(graph):
        torch.npu.graph_task_group_begin(torch.npu.current_stream())
        x.copy_(source, non_blocking=True)
        handle = torch.npu.graph_task_group_end(torch.npu.current_stream())
    with torch.npu.stream(side):
        torch.npu.graph_task_update_begin(side, handle)
        x.copy_(source, non_blocking=True)
        with pytest.raises(RuntimeError, match="207019"):
            torch.npu.graph_task_update_end(side)


def test_a_result_in_other_memory_would_be_lost():
    kernel = scaled_sum(COLUMNS)
    a, b = torch.randn(2, 4, COLUMNS).npu()
    graph, side = torch.npu.NPUGraph(), torch.npu.Stream()
    with torch.npu.graph(graph):
        torch.npu.graph_task_group_begin(torch.npu.current_stream())
        kernel(a, b)  # allocates its output
        handle = torch.npu.graph_task_group_end(torch.npu.current_stream())
        result = torch.empty_like(a)
        result.copy_(a)
    with torch.npu.stream(side):
        torch.npu.graph_task_update_begin(side, handle)
        kept = torch.empty_like(a)
        kernel(a, kept)
        with pytest.raises(RuntimeError, match="AI-CAP-024: the update of scaled_sum"):
            torch.npu.graph_task_update_end(side)


# ------------------------------------------------------------------------------------------ events


def test_external_events_outside_of_a_capture():
    """Wait, reset, record is the documented order of use: the stream stands still until then."""
    event, side, x = torch.npu.ExternalEvent(), torch.npu.Stream(), torch.zeros(3, device="npu")
    torch.npu.synchronize()
    with torch.npu.stream(side):
        x.add_(1)
    main = torch.npu.current_stream()
    event.wait(main)
    event.reset(main)
    with pytest.raises(RuntimeError, match="AI-CAP-025"):
        x.add_(1)
    event.record(side)
    x.add_(1)  # comes after the work of `side`
    assert x.tolist() == [2.0] * 3
    event.record(side)
    event.wait(main)
    event.reset(main)
    assert repr(event) == "torch.npu.ExternalEvent(not recorded)"


def test_a_graph_may_record_an_external_event():
    event, side, x = torch.npu.ExternalEvent(), torch.npu.Stream(), torch.zeros(3, device="npu")
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        x.add_(1)
        event.record()
    assert "not recorded" in repr(event)
    graph.replay()
    event.wait(side)
    with torch.npu.stream(side):
        x.mul_(3)
    torch.npu.current_stream().wait_stream(side)
    assert x.tolist() == [3.0] * 3


def test_a_graph_that_is_reset_while_it_waits():
    case = Incremented()
    case.graph.replay()
    case.graph.reset()
    torch.npu.synchronize()
    case.event.record(case.update_stream)
    assert (case.x + 1).shape == (3, COLUMNS)
