"""The device API against a torch_npu generated from its newest release, and a stand-in for CUDA."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphs.device_api import CpuDeviceApi, DeviceApi, MemoryFigures, device_api
from graphs.errors import GraphError
from tests.contracts.fake_torch_npu import FakeTorchNpu


class FakeBackend:
    """Records what the device API asks for; `fail_at_end` makes ending a capture raise."""

    def __init__(self, kind: str, *, fail_at_end: bool = False) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.current = "default stream"
        backend = self

        class Capture:
            def __enter__(self) -> None:
                backend.current = "capture stream"

            def __exit__(self, *_: object) -> None:
                if fail_at_end:  # torch leaves the capture stream current in this case
                    raise RuntimeError("507903")
                backend.current = "default stream"

        def npu_graph(
            npu_graph: Any,
            pool: Any,
            stream: Any,
            capture_error_mode: str,
            auto_dispatch_capture: bool = False,
        ) -> Capture:
            backend.calls.append(
                (npu_graph, pool, stream, auto_dispatch_capture, capture_error_mode)
            )
            return Capture()

        def cuda_graph(
            cuda_graph: Any,
            pool: Any = None,
            stream: Any = None,
            capture_error_mode: str = "global",
        ) -> Capture:
            backend.calls.append((cuda_graph, pool, stream, False, capture_error_mode))
            return Capture()

        def set_stream(stream: str) -> None:
            backend.current = stream

        behaviour: dict[str, Any] = {
            "set_stream": set_stream,
            "device": lambda device: contextlib.nullcontext(),
            "current_stream": lambda device: backend.current,
            "current_device": lambda: 1,
            "device_count": lambda: 4,
            "is_available": lambda: True,
            "is_current_stream_capturing": lambda: backend.current == "capture stream",
            "mem_get_info": lambda device: (10, 100),
            "memory_allocated": lambda device: 7,
            "memory_reserved": lambda device: 8,
        }
        if kind == "npu":
            behaviour["graph"] = npu_graph
            dotted = {f"torch.npu.{name}": does for name, does in behaviour.items()}
            self.namespace = FakeTorchNpu(behaviour=dotted).npu
        else:
            graph_class = type("Graph", (), {})
            self.namespace = SimpleNamespace(**behaviour, graph=cuda_graph, CUDAGraph=graph_class)

    def api(self, kind: str) -> DeviceApi:
        return DeviceApi(torch.device("cpu") if kind == "cuda" else NPU, self.namespace)


# Only the type is looked at; a real torch.device of type npu needs a backend of that name.
NPU: Any = SimpleNamespace(type="npu", index=0)


@pytest.mark.parametrize("kind", ["npu", "cuda"])
def test_the_error_mode_never_lands_in_auto_dispatch(kind: str) -> None:
    backend = FakeBackend(kind)
    api = backend.api(kind)
    graph = api.new_graph()
    with api.capture(graph, pool="pool", stream="stream", error_mode="relaxed"):
        assert api.is_capturing()
    assert backend.calls == [(graph, "pool", "stream", False, "relaxed")]
    assert not api.is_capturing()


@pytest.mark.parametrize("kind", ["npu", "cuda"])
def test_the_current_stream_survives_a_capture_that_cannot_end(kind: str) -> None:
    backend = FakeBackend(kind, fail_at_end=True)
    api = backend.api(kind)
    with (
        pytest.raises(RuntimeError, match="507903"),
        api.capture(api.new_graph(), pool=None, stream=None),
    ):
        pass
    assert backend.current == "default stream"


def test_memory_figures() -> None:
    expected = MemoryFigures(free=10, total=100, allocated=7, reserved=8)
    assert FakeBackend("npu").api("npu").memory() == expected


def test_a_device_without_number_means_the_current_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "cuda", FakeBackend("cuda").namespace)
    assert device_api("cuda").device == torch.device("cuda", 1)
    assert device_api(torch.device("cuda", 0)).device == torch.device("cuda", 0)
    assert device_api("cuda:3").supports_graphs and not device_api("cuda:3").simulated


@pytest.mark.parametrize("name", ["cuda:4", "cuda:-1", "cuda:x", "cuda:1:2"])
def test_an_index_that_is_not_there(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "cuda", FakeBackend("cuda").namespace)
    with pytest.raises(
        GraphError, match=r"AI-GRAPH-002: device cuda.* does not exist; there are 4"
    ):
        device_api(name)


@pytest.mark.parametrize("name", ["tpu", "cuda:0", "meta"])
def test_a_device_that_is_not_there(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(GraphError, match=f"AI-GRAPH-002: device {name} is not available"):
        device_api(name)


def test_the_cpu_has_neither_graphs_nor_streams() -> None:
    api = device_api("cpu")
    assert isinstance(api, CpuDeviceApi)
    assert not api.supports_graphs and not api.is_capturing() and api.replay_counters() is None
    assert api.new_event() is None and api.current_stream() is None
    assert api.memory() == MemoryFigures()
    assert not api.host_staging((2, 3), torch.int32).is_pinned()
    with api.use_stream(None), api.on_device():
        api.synchronize()


def test_real_devices(api: DeviceApi) -> None:
    """What every device with graphs must offer."""
    assert api.supports_graphs
    assert api.new_graph() is not api.new_graph()
    stream = api.new_stream()
    with api.on_device(), api.use_stream(stream):
        x = torch.ones(4, device=api.device) * 2
    api.current_stream().wait_stream(stream)
    api.synchronize()
    assert x.cpu().tolist() == [2.0] * 4
    staging = api.host_staging((3,), torch.int32)
    assert staging.device.type == "cpu" and staging.numpy().tolist() == [0, 0, 0]
    assert api.address(x[2:]) - api.address(x) == 8
    event = api.new_event()
    if event is not None:
        event.record(api.current_stream())
        event.synchronize()
    assert api.memory().allocated is not None


# ------------------------------------------------------------------------------- for verification


def test_allocations_are_counted(api: DeviceApi) -> None:
    before = api.allocations()
    kept = [torch.zeros(3, device=api.device) for _ in range(4)]
    kept[0].add_(1)
    kept[0][1:].view(2)
    after = api.allocations()
    if api.device.type == "cpu":
        assert before is after is None
    else:
        assert before is not None and after is not None and after - before == 4


def test_generators_move_when_a_step_draws(api: DeviceApi) -> None:
    before = api.generator_states()
    assert {"cpu", str(api.device)} == set(before)
    torch.zeros(3, device=api.device).add_(1)
    assert all(torch.equal(api.generator_states()[name], before[name]) for name in before)
    torch.rand(3, device=api.device)
    assert not torch.equal(api.generator_states()[str(api.device)], before[str(api.device)])


def test_a_stall_changes_nothing(api: DeviceApi) -> None:
    x = torch.zeros(3, device=api.device)
    api.stall()
    x.add_(1)
    assert x.cpu().tolist() == [1, 1, 1]
