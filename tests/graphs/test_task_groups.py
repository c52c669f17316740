"""The order of calls against a torch_npu generated from its newest release."""

from __future__ import annotations

from typing import Any

import pytest

from graphs.device_api import CpuDeviceApi
from graphs.task_groups import TaskGroups
from tests.contracts.fake_torch_npu import FakeTorchNpu
from tests.graphs.conftest import simulated_npu


class FakeNpu:
    """Records calls; ending raises when `invalid`, as a device does after an error inside."""

    def __init__(self, *, invalid: bool = False) -> None:
        self.calls: list[tuple[Any, ...]] = []
        behaviour = {
            "graph_task_group_begin": lambda stream: self.calls.append(("begin", stream)),
            "graph_task_group_end": lambda stream: self._end("end", stream, invalid),
            "graph_task_update_begin": lambda stream, handle: self.calls.append(
                ("update", stream, handle)
            ),
            "graph_task_update_end": lambda stream: self._end("updated", stream, invalid),
        }
        dotted = {f"torch.npu.{name}": does for name, does in behaviour.items()}
        self.namespace = FakeTorchNpu(behaviour=dotted).npu

    def _end(self, call: str, stream: str, invalid: bool) -> str:
        self.calls.append((call, stream))
        if invalid:
            raise RuntimeError("error code is 107034")
        return "handle"


def test_a_group_gives_its_handle() -> None:
    npu, handles = FakeNpu(), list[Any]()
    groups = TaskGroups(npu.namespace)
    with groups.group("captured", handles):
        npu.calls.append(("launch",))
    with groups.update("side", handles[0]):
        npu.calls.append(("launch again",))
    assert npu.calls == [
        ("begin", "captured"),
        ("launch",),
        ("end", "captured"),
        ("update", "side", "handle"),
        ("launch again",),
        ("updated", "side"),
    ]


@pytest.mark.parametrize("invalid", [False, True])
def test_the_first_error_is_shown_and_everything_closed(invalid: bool) -> None:
    npu, handles = FakeNpu(invalid=invalid), list[Any]()
    groups = TaskGroups(npu.namespace)
    for context in (groups.group("captured", handles), groups.update("side", "handle")):
        with pytest.raises(ZeroDivisionError), context:
            1 / 0
    assert [call[0] for call in npu.calls] == ["begin", "end", "update", "updated"]
    assert handles == []


def test_which_devices_have_them() -> None:
    assert CpuDeviceApi().task_groups() is None
    assert isinstance(simulated_npu().task_groups(), TaskGroups)
