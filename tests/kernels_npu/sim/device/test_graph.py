"""Capture and replay: what is recorded, what stays, and everything that ACLGraph forbids."""

from __future__ import annotations

import contextlib
import gc
import json
import threading

import pytest
import torch

from kernels_npu.sim.device import counters, state
from kernels_npu.sim.device.memory import host
from kernels_npu.sim.device.state import current
from tests.kernels_npu.sim.device.conftest import capture


def _poison(tensor):
    return host(tensor).view(torch.uint8).eq(0xFF).all()


def test_capture_does_not_execute_and_replay_does():
    x = torch.ones(4, device="npu")
    graph, y = capture(lambda: x.add_(1) * 3)
    assert x.tolist() == [1.0] * 4 and _poison(y)
    address = y.data_ptr()
    graph.replay()
    assert y.tolist() == [6.0] * 4
    graph.replay()
    assert y.tolist() == [9.0] * 4 and y.data_ptr() == address


def test_an_input_that_is_not_refreshed_gives_the_old_result():
    static = torch.zeros(3, device="npu")
    graph, y = capture(lambda: static + 1)
    graph.replay()
    new = torch.full((3,), 5.0, device="npu")
    graph.replay()
    assert y.tolist() == [1.0] * 3
    static.copy_(new)
    graph.replay()
    assert y.tolist() == [6.0] * 3


def test_views_of_outputs_are_views():
    x = torch.arange(6.0, device="npu")

    def body():
        y = x.view(2, 3) * 2
        return y, y[1], y.t()

    graph, (y, row, transposed) = capture(body)
    graph.replay()
    assert row.tolist() == [6.0, 8.0, 10.0] and torch.equal(transposed.cpu(), y.cpu().t())
    assert row.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()


def test_empty_inside_a_capture_is_poison_until_written():
    def body():
        y = torch.empty(4, device="npu")
        z = torch.zeros(4, device="npu")
        y[:2] = 1
        return y, z

    graph, (y, z) = capture(body)
    assert _poison(y) and _poison(z)
    graph.replay()
    assert y[:2].tolist() == [1, 1] and y[2:].isnan().all() and z.tolist() == [0] * 4


def test_random_operations_draw_anew_at_each_replay():
    graph, y = capture(lambda: torch.rand(4, device="npu"))
    torch.manual_seed(2)
    expected = [torch.rand(4) for _ in range(2)]
    torch.manual_seed(2)
    for numbers in expected:
        graph.replay()
        assert torch.equal(y.cpu(), numbers)


def test_out_overloads_and_resizing():
    x, out = torch.ones(3, device="npu"), torch.empty(0, device="npu")
    graph, _ = capture(lambda: torch.mul(x, 4, out=out))
    graph.replay()
    assert out.tolist() == [4.0] * 3


def test_memory_of_dead_tensors_is_used_again():
    x = torch.ones(1000, device="npu")

    def body():
        y = x
        for _ in range(50):
            y = y + 1
        return y

    before = torch.npu.memory_reserved()
    graph, y = capture(body)
    assert graph._pool.bytes <= 3 * 4096
    graph.replay()
    assert y.eq(51).all().item()
    graph.reset()
    assert torch.npu.memory_reserved() <= before + 4096


def test_a_shared_pool_keeps_live_outputs_apart():
    x = torch.ones(100, device="npu")
    pool = torch.npu.graph_pool_handle()
    graphs, outputs = [], []
    for factor in (2, 3):
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph, pool=pool):
            outputs.append((x + 1) * factor)
        graphs.append(graph)
    assert graphs[0].pool() == graphs[1].pool() == pool
    for graph in graphs:
        graph.replay()
    assert outputs[0].eq(4).all().item() and outputs[1].eq(6).all().item()
    graphs[0].reset()
    graphs[1].replay()
    assert outputs[1].eq(6).all().item()


def test_counters_count_replays_not_captures():
    x = torch.ones(2, device="npu")
    counters.reset()
    graph, _ = capture(lambda: x + 1)
    assert counters.snapshot().captures == 1 and not counters.snapshot().replayed_ops
    graph.replay()
    graph.replay()
    seen = counters.snapshot()
    assert seen.replays == 2 and seen.replayed_ops == {"add.Tensor": 2}
    assert seen.eager_ops.get("add.Tensor", 0) == 0


def test_debug_dump(tmp_path):
    x = torch.ones(2, device="npu")
    graph, _ = capture(lambda: (x + 1).relu_())
    graph.debug_dump(str(tmp_path / "graph.json"))
    steps = json.loads((tmp_path / "graph.json").read_text())["steps"]
    assert [s["name"] for s in steps] == ["add.Tensor", "relu_"]


def test_autograd_inside_a_capture():
    weight = torch.ones(3, device="npu", requires_grad=True)
    x = torch.zeros(3, device="npu")

    def body():
        (gradient,) = torch.autograd.grad((weight * x).square().sum(), weight)
        return gradient

    graph, gradient = capture(body)
    x.fill_(2)
    graph.replay()
    assert gradient.tolist() == [8.0] * 3


# ------------------------------------------------------------------ what is forbidden


FORBIDDEN = {
    "item": (lambda x: x[0].item(), "AI-CAP-001", 107027),
    "cpu": (lambda x: x.cpu(), "AI-CAP-001", 107027),
    "print": (lambda x: repr(x), "AI-CAP-001", 107027),
    "bool": (lambda x: bool(x[0] > 0), "AI-CAP-001", 107027),
    "tolist": (lambda x: x.tolist(), "AI-CAP-001", 107027),
    "nonzero": (lambda x: x.nonzero(), "AI-CAP-001", 107027),
    "mask": (lambda x: x[x > 0], "AI-CAP-001", 107027),
    "synchronize": (lambda x: torch.npu.synchronize(), "AI-CAP-001", 107027),
    "stream": (lambda x: torch.npu.current_stream().synchronize(), "AI-CAP-001", 107027),
    "query": (lambda x: torch.npu.current_stream().query(), "AI-CAP-001", 107027),
    "event": (lambda x: torch.npu.Event().synchronize(), "AI-CAP-001", 107027),
    "to npu": (lambda x: torch.ones(3).npu(), "AI-CAP-002", 107030),
    "pageable": (lambda x: x.copy_(torch.ones(4), non_blocking=True), "AI-CAP-002", 107030),
    "host index": (lambda x: x[torch.tensor([0, 1])], "AI-CAP-002", 107030),
    "rng state": (lambda x: torch.npu.get_rng_state(), "AI-CAP-008", None),
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_forbidden_during_capture(name):
    operation, code, acl_error = FORBIDDEN[name]
    x = torch.ones(4, device="npu")
    graph = torch.npu.NPUGraph()
    with pytest.raises(RuntimeError) as error, torch.npu.graph(graph):
        operation(x)
    assert error.value.code == code and error.value.acl_error == acl_error
    if acl_error:
        assert f"error code is {acl_error}" in str(error.value)
    assert not torch.npu.is_current_stream_capturing()
    assert torch.npu.current_stream() == torch.npu.default_stream()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()
    assert (x + 1).tolist() == [2.0] * 4  # everything works again
    with torch.npu.graph(graph):
        y = x * 2
    graph.replay()
    assert y.tolist() == [2.0] * 4


def test_pinned_copies_are_recorded():
    x, source = torch.zeros(3, device="npu"), torch.ones(3).pin_memory()
    graph, _ = capture(lambda: x.copy_(source, non_blocking=True))
    assert x.tolist() == [0.0] * 3
    source.fill_(7)
    graph.replay()
    assert x.tolist() == [7.0] * 3


def test_the_first_error_surfaces():
    x = torch.ones(2, device="npu")
    with pytest.raises(ZeroDivisionError), torch.npu.graph(torch.npu.NPUGraph()):
        x + 1 / 0

    def swallow():
        with contextlib.suppress(RuntimeError):
            x[0].item()  # the capture is invalid all the same

    with pytest.raises(RuntimeError) as error:
        capture(swallow)
    assert error.value.acl_error == 507903 and error.value.__cause__.acl_error == 107027


def _begin(graph=None, **kwargs):
    graph = graph or torch.npu.NPUGraph()
    with torch.npu.stream(torch.npu.Stream()):
        graph.capture_begin(**kwargs)
        graph.capture_end()
    return graph


def test_begin_rules(monkeypatch):
    with pytest.raises(RuntimeError, match="must be captured on a non-default stream"):
        torch.npu.NPUGraph().capture_begin()
    with pytest.raises(RuntimeError, match="already owns a captured graph"):
        _begin(_begin())
    with pytest.raises(RuntimeError, match="Unknown capture error mode"):
        _begin(capture_error_mode="strict")
    with pytest.raises(RuntimeError, match="AI-CAP-016"):
        torch.npu.graph(torch.npu.NPUGraph(), None, None, "thread_local")
    with pytest.raises(RuntimeError, match="AI-CAP-018"):
        torch.npu.graph(torch.npu.NPUGraph(), auto_dispatch_capture=True)
    with pytest.raises(RuntimeError, match="not a memory pool"):
        _begin(pool=(0, 10**9))
    external = torch.npu.ExternalStream(12345)
    with torch.npu.stream(external), pytest.raises(RuntimeError, match="External NPU stream"):
        torch.npu.NPUGraph().capture_begin()
    monkeypatch.setenv("TASK_QUEUE_ENABLE", "2")
    with pytest.raises(RuntimeError, match="Do not support TASK_QUEUE_ENABLE = 2"):
        _begin()
    monkeypatch.setenv("TASK_QUEUE_ENABLE", "1")
    monkeypatch.setenv("ASCEND_LAUNCH_BLOCKING", "1")
    with pytest.raises(RuntimeError, match="AI-CAP-019"):
        _begin()


def test_use_before_capture():
    for use in ("replay", "pool"):
        with pytest.raises(RuntimeError, match=f"Called NPUGraph::{use} without"):
            getattr(torch.npu.NPUGraph(), use)()
    with pytest.raises(RuntimeError, match="107029"):
        torch.npu.NPUGraph().capture_end()
    graph = _begin()
    graph.reset()
    with pytest.raises(RuntimeError, match="Called NPUGraph::replay"):
        graph.replay()


def test_end_rules():
    graph, stream = torch.npu.NPUGraph(), torch.npu.Stream()
    with torch.npu.stream(stream):
        graph.capture_begin()
        with torch.npu.stream(torch.npu.Stream()), pytest.raises(RuntimeError) as error:
            graph.capture_end()
    assert error.value.acl_error == 107036
    errors = []

    def end():
        with pytest.raises(RuntimeError) as raised:
            graph.capture_end()
        errors.append(raised.value.acl_error)

    with torch.npu.stream(stream):
        graph.capture_begin()
        thread = threading.Thread(target=end)
        thread.start()
        thread.join()
    assert errors == [107038]


def test_one_capture_at_a_time_and_no_replay_inside():
    done, _ = capture(lambda: torch.zeros(1, device="npu"))
    with pytest.raises(RuntimeError, match="107032"), torch.npu.graph(torch.npu.NPUGraph()):
        torch.npu.NPUGraph().capture_begin()
    with pytest.raises(RuntimeError, match="AI-CAP-015"), torch.npu.graph(torch.npu.NPUGraph()):
        done.replay()


def test_graphs_occupy_streams(monkeypatch):
    device, side = current.streams[0].device, torch.npu.Stream()
    x = torch.ones(4, device="npu")

    def body():
        main = torch.npu.current_stream()
        side.wait_stream(main)
        with torch.npu.stream(side):
            y = x * 2
        main.wait_stream(side)
        return y

    gc.collect()  # graphs of earlier tests
    capture(lambda: x + 1)  # makes the streams that every capture uses
    free = device.free_streams
    plain, _ = capture(lambda: x + 1)
    forked, _ = capture(body)
    assert free - device.free_streams == 3
    monkeypatch.setattr(state, "STREAMS_PER_DEVICE", 1984 - device.free_streams)
    with pytest.raises(RuntimeError, match="AI-CAP-021") as error:
        capture(lambda: x + 1)
    assert error.value.acl_error == 207008 and torch.npu.current_stream() != side
    plain.reset()
    forked.reset()
    assert device.free_streams == 3
    capture(lambda: x + 1)


def test_side_streams():
    x, side = torch.ones(4, device="npu"), torch.npu.Stream()

    def body(join):
        main = torch.npu.current_stream()
        side.wait_stream(main)
        with torch.npu.stream(side):
            assert torch.npu.is_current_stream_capturing()
            y = x * 2
        z = x + 1
        if join:
            main.wait_stream(side)
            z = z + y
        return z

    graph, z = capture(lambda: body(True))
    graph.replay()
    assert z.tolist() == [4.0] * 4
    with pytest.raises(RuntimeError) as error:
        capture(lambda: body(False))
    assert error.value.acl_error == 107025 and not torch.npu.is_current_stream_capturing()
    with torch.npu.stream(side):
        assert not torch.npu.is_current_stream_capturing()


def test_side_stream_without_wait_is_unordered_inside_the_graph():
    x, side = torch.ones(4, device="npu"), torch.npu.Stream()

    def body():
        main = torch.npu.current_stream()
        side.wait_stream(main)
        with torch.npu.stream(side):
            y = x * 2
        return y + 1  # main does not wait for side

    with pytest.raises(RuntimeError, match="AI-STREAM-001"):
        capture(body)


def test_an_event_from_outside_cannot_be_waited_for():
    event = torch.npu.current_stream().record_event()
    with pytest.raises(RuntimeError, match="107024"), torch.npu.graph(torch.npu.NPUGraph()):
        event.wait()


def test_replay_has_its_place_in_the_stream_order():
    static, side = torch.ones(4, device="npu"), torch.npu.Stream()
    graph, y = capture(lambda: static + 1)
    torch.npu.synchronize()
    with torch.npu.stream(side):
        graph.replay()
    with pytest.raises(RuntimeError, match="graph replay"):
        y + 1
    with pytest.raises(RuntimeError, match="graph replay"):
        static.zero_()
    torch.npu.current_stream().wait_stream(side)
    assert y.tolist() == [2.0] * 4


def test_relaxed_and_other_threads():
    results = []

    def other():
        results.append(torch.ones(2, device="npu").tolist())

    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph, capture_error_mode="thread_local"):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert results == [[1.0, 1.0]]


def test_second_device():
    x = torch.ones(3, device="npu:1")
    with torch.npu.device(1):
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph, stream=torch.npu.Stream()):
            y = x + 1
    graph.replay()
    assert y.device.index == 1 and y.tolist() == [2.0] * 3
