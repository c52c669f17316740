"""Reading the DLPack exchange table of torch.Tensor, and refusing what is not one."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import pytest
import torch

from kernels_npu.errors import EnvironmentProblem, UsageError
from kernels_npu.stream.calling import device_of
from kernels_npu.stream.devices import with_index
from kernels_npu.stream.exchange_table import ATTRIBUTE, Layout, table_of
from tests.kernels_npu.stream import tables


def tensor_type(capsule: object) -> type:
    """A type that carries `capsule` where torch.Tensor has its own."""
    return type("Tensorlike", (), {ATTRIBUTE: capsule})


def test_the_layout_is_dlpacks():
    offsets = {name: getattr(Layout, name).offset for name, *_ in Layout._fields_}
    assert ctypes.sizeof(Layout) == 56
    assert offsets["managed_tensor_allocator"] == 16
    assert offsets["current_work_stream"] == 48


def test_torchs_own_table_is_read():
    table = table_of(torch.Tensor)
    assert table.version[0] == 1
    assert table_of(torch.nn.Parameter).address == table.address
    assert table.ask(1, 0) == 0  # the CPU has no streams


def test_a_table_answers_for_the_device_that_is_asked_about():
    table = table_of(tensor_type(tables.make(lambda index: 0x1000 + index)))
    assert [table.ask(12, index) for index in (0, 3)] == [0x1000, 0x1003]


@pytest.mark.parametrize(
    "capsule, says",
    [
        (None, "is None"),
        (0x7F00, "is 32512"),  # the form before capsules
        (tables.make(tables.no_stream, major=2, minor=5), "DLPack 2.5"),
        (tables.make(tables.no_stream, current_work_stream=0), "no current_work_stream"),
        (
            tables.make(tables.no_stream, managed_tensor_from_py_object_no_sync=0),
            "no managed_tensor_from_py_object_no_sync",
        ),
    ],
)
def test_what_is_no_table_of_this_layout_is_refused(capsule, says):
    with pytest.raises(EnvironmentProblem, match=says) as caught:
        table_of(tensor_type(capsule))
    assert caught.value.code == "AI-STREAM-020"


def test_a_table_without_the_optional_function_is_one():
    capsule = tables.make(lambda index: 0x40, dltensor_from_py_object_no_sync=0)
    assert table_of(tensor_type(capsule)).ask(2, 0) == 0x40


def test_a_launch_is_on_one_device_that_is_not_the_cpu():
    host, first, second = (
        SimpleNamespace(device=torch.device(name), is_cpu=name == "cpu")
        for name in ("cpu", "cuda:0", "cuda:1")
    )
    assert device_of([first, first]) == torch.device("cuda", 0)
    for tensors in ([host], [], [first, second], [host, first], [first, host]):
        with pytest.raises(UsageError) as caught:
            device_of(tensors)
        assert caught.value.code == "AI-STREAM-013"


@pytest.mark.parametrize("device", ["cpu", "meta", "xyz", "cuda:99", "npu:-1", None])
def test_a_device_without_streams_or_that_is_not_there_is_refused(device):
    with pytest.raises(UsageError) as caught:
        with_index(device)
    assert caught.value.code == "AI-STREAM-013"
