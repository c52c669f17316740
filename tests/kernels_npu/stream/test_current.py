"""How a launch gets torch_npu's current stream, against stand-ins for its versions."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import torch

from kernels_npu.errors import EnvironmentProblem
from kernels_npu.stream import current_raw_stream
from tests.contracts.fake_torch_npu import SNAPSHOTS, FakeTorchNpu

DEVICE = torch.device("cpu")  # only its index is read


@pytest.fixture
def install(monkeypatch):
    """Put a stand-in for torch_npu into `sys.modules`."""

    def put(accessor=None, stream=None):
        calls = []

        def record(index):
            calls.append(index)
            return accessor(index)

        module = SimpleNamespace(
            __version__="0",
            _C=SimpleNamespace(**({"_npu_getCurrentRawStream": record} if accessor else {})),
            npu=SimpleNamespace(current_device=lambda: 3, current_stream=lambda index: stream),
        )
        module._C._npu_getCurrentRawStreamNoWait = lambda index: pytest.fail("does not wait")
        monkeypatch.setitem(sys.modules, "torch_npu", module)
        return calls

    return put


def test_the_raw_accessor_is_asked_before_every_launch(install):
    handles = iter([0x10, 0x20])
    calls = install(accessor=lambda index: next(handles))
    assert current_raw_stream(torch.device("cpu", 1)) == 0x10
    assert current_raw_stream(torch.device("cpu", 1)) == 0x20
    assert calls == [1, 1]


@pytest.mark.parametrize("snapshot", SNAPSHOTS, ids=lambda path: path.stem)
def test_every_release_has_the_accessor_that_drains(monkeypatch, snapshot):
    name = "torch_npu._C._npu_getCurrentRawStream"
    fake = FakeTorchNpu(snapshot, {name: 0x40, "torch.npu.current_device": 1})
    monkeypatch.setitem(sys.modules, "torch_npu", fake)
    assert current_raw_stream(torch.device("cpu", 2)) == 0x40
    assert current_raw_stream(DEVICE) == 0x40
    assert fake.called(name) == [{"_0": 2}, {"_0": 1}]


def test_a_device_without_index_is_the_current_one(install):
    calls = install(accessor=lambda index: 0x10)
    current_raw_stream(DEVICE)
    assert calls == [3]


def test_older_versions_are_asked_for_the_stream_object(install):
    install(stream=SimpleNamespace(npu_stream=0x30))
    assert current_raw_stream(DEVICE) == 0x30


def test_the_null_stream_is_refused(install):
    install(accessor=lambda index: 0)
    with pytest.raises(EnvironmentProblem) as caught:
        current_raw_stream(DEVICE)
    assert caught.value.code == "AI-STREAM-011"


def test_a_version_without_any_accessor_is_refused(install):
    install(stream=SimpleNamespace())
    with pytest.raises(EnvironmentProblem) as caught:
        current_raw_stream(DEVICE)
    assert caught.value.code == "AI-STREAM-010"
