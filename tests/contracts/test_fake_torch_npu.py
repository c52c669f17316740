"""Our code on a torch_npu generated from each release's signatures."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphs.device_api import DeviceApi
from graphs.task_groups import TaskGroups
from kernels_npu.stream import current_raw_stream
from tests.contracts.fake_torch_npu import SNAPSHOTS, FakeTorchNpu

NPU: Any = SimpleNamespace(type="npu", index=0)


@pytest.fixture(params=SNAPSHOTS, ids=lambda path: path.stem)
def fake(request):
    return FakeTorchNpu(
        request.param,
        behaviour={
            "torch.npu.mem_get_info": (3, 17),
            "torch.npu.memory_stats": {"allocation.all.allocated": 11},
            "torch.npu.current_device": 2,
            "torch.npu.current_stream": "the stream before",
            "torch_npu._C._npu_getCurrentRawStream": 0x40,
        },
    )


def test_a_capture_passes_its_mode_as_the_mode(fake):
    api = DeviceApi(NPU, fake.npu)
    graph = api.new_graph()
    with api.capture(graph, pool="pool", stream="side", error_mode="relaxed"):
        api.is_capturing()
    assert fake.called("torch.npu.graph") == [
        {"npu_graph": graph, "pool": "pool", "stream": "side", "capture_error_mode": "relaxed"}
    ]
    assert fake.called("torch.npu.set_stream") == [{"stream": "the stream before"}]


def test_everything_else_that_the_device_api_asks_for(fake):
    api = DeviceApi(NPU, fake.npu)
    api.new_pool(), api.new_stream(), api.new_event(), api.synchronize(), api.stall()
    api.memory(), api.generator_states()
    assert (api.memory().free, api.memory().total, api.allocations()) == (3, 17, 11)
    with api.use_stream("side"), api.on_device(), api.peak_memory():
        pass
    groups, handles = TaskGroups(fake.npu), []
    with groups.group("side", handles):
        pass
    with groups.update("side", handles[0]):
        pass
    assert fake.called("torch.npu.Stream") == [{"device": NPU}]
    assert fake.called("torch.npu.graph_task_update_begin")[0]["handle"] is handles[0]


def test_a_launch_reads_the_stream_of_its_device(fake, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_npu", fake)
    assert current_raw_stream(torch.device("cpu", 1)) == 0x40
    assert current_raw_stream(torch.device("cpu")) == 0x40
    assert fake.called("torch_npu._C._npu_getCurrentRawStream") == [{"_0": 1}, {"_0": 2}]


def test_wrong_calls_are_refused(fake):
    with pytest.raises(TypeError, match="keep_graph"):
        fake.npu.NPUGraph(keep_graph=True)
    with pytest.raises(TypeError, match="npu_graph"):
        fake.npu.graph(cuda_graph=1)
    with pytest.raises(TypeError, match="too many"):
        fake.npu.NPUGraph().replay("stream")
    with pytest.raises(AttributeError):
        fake.npu.graph_task_group_open("side")
    with pytest.raises(AssertionError, match="does not have"):
        FakeTorchNpu(behaviour={"torch.npu.graph_task_group_open": 1})


def test_the_trap_of_the_fourth_position_is_there(fake):
    """A mode given by position turns automatic dispatch on, in every release."""
    fake.npu.graph("graph", None, None, "relaxed")
    assert fake.called("torch.npu.graph")[0]["auto_dispatch_capture"] == "relaxed"
    assert "capture_error_mode" not in fake.called("torch.npu.graph")[0]
