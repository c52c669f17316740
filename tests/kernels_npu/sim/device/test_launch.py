"""Kernel launches: calling convention, checks, recording, and the place in stream order."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kernels_npu import sim
from kernels_npu.sim.device import counters
from kernels_npu.sim.device.launch import plan_of
from kernels_npu.sim.device.memory import host
from kernels_npu.sim.frontend.shims import tilelang
from kernels_npu.sim.machine import HazardError
from tests.kernels_npu.sim.device.conftest import capture
from tests.kernels_npu.sim.device.kernels import increment, scaled_sum, two_outputs

COLUMNS = 32


def _rows(rows, dtype=torch.float32):
    return torch.randn(rows, COLUMNS, device="npu", dtype=dtype)


@pytest.mark.parametrize("rows", [1, 3, 7])
def test_output_is_allocated_and_symbolic_dimensions_bound(rows):
    a, b = _rows(rows), _rows(rows)
    counters.reset()
    c = scaled_sum(COLUMNS)(a, b)
    assert c.shape == (rows, COLUMNS) and c.is_npu
    torch.testing.assert_close(c.cpu(), a.cpu() + b.cpu(), rtol=0, atol=0)
    found = counters.snapshot()
    assert found.eager_launches == {"scaled_sum": 1}
    as_json = json.loads(json.dumps(found.to_dict()))
    assert as_json["eager_launches"] == {"scaled_sum": 1} and as_json["replays"] == 0


def test_extra_arguments_are_ignored():
    a = _rows(2)
    c = scaled_sum(COLUMNS)(a, a, a, "ignored")
    torch.testing.assert_close(c.cpu(), a.cpu() * 2)


def test_in_place_kernel_returns_an_empty_list_and_takes_scalars():
    x = _rows(3)
    before = x.cpu()
    assert increment(COLUMNS)(x, 2.5) == []
    torch.testing.assert_close(x.cpu(), before + 2.5)
    increment(COLUMNS)(x[1:2], 1)  # an offset into the storage, and an int for a float
    torch.testing.assert_close(x.cpu()[1], before[1] + 3.5)
    torch.testing.assert_close(x.cpu()[2], before[2] + 2.5)


def test_several_outputs_come_in_the_order_of_out_idx():
    x = _rows(4)
    halved, doubled = two_outputs(4, COLUMNS)(x)
    torch.testing.assert_close(halved.cpu(), x.cpu() / 2)
    torch.testing.assert_close(doubled.cpu(), x.cpu() * 2)


def test_nothing_is_launched_without_rows():
    counters.reset()
    c = scaled_sum(COLUMNS)(_rows(0), _rows(0))
    assert c.shape == (0, COLUMNS)
    assert counters.snapshot().empty_launches == {"scaled_sum": 1}
    assert not counters.snapshot().launches


@pytest.mark.parametrize(
    "arguments, code, words",
    [
        (lambda a: (a,), "AI-TYPE-030", "takes 2 inputs (a, b), 1 were given"),
        (lambda a: (a, a.half()), "AI-TYPE-031", "b: expected torch.float32, got torch.float16"),
        (lambda a: (a, a.t().contiguous().t()), "AI-TYPE-032", "b must be contiguous"),
        (lambda a: (a, a.cpu()), "AI-TYPE-033", "b: expected npu:0, got cpu"),
        (lambda a: (a.cpu(), a), "AI-TYPE-033", "a: expected npu, got cpu"),
        (lambda a: (a, a.to("npu:1")), "AI-TYPE-033", "b: expected npu:0, got npu:1"),
        (lambda a: (a, 1.0), "AI-TYPE-034", "b is a float32 tensor, got 1.0"),
        (lambda a: (a.view(-1)[0], a), "AI-TYPE-035", "dimension rows is axis 0 of a"),
    ],
)
def test_wrong_arguments(arguments, code, words):
    with pytest.raises(ValueError) as error:
        scaled_sum(COLUMNS)(*arguments(_rows(3)))
    assert error.value.code == code and words in str(error.value) and error.value.fix


def test_wrong_scalar():
    with pytest.raises(ValueError, match="AI-TYPE-034"):
        increment(COLUMNS)(_rows(1), torch.tensor(1.0))


def test_default_device_mode_does_not_reach_into_a_launch():
    torch.set_default_device("npu")
    try:
        a = torch.randn(2, COLUMNS)
        torch.testing.assert_close(scaled_sum(COLUMNS)(a, a), a * 2)
    finally:
        torch.set_default_device(None)


def test_what_the_machine_computes_is_no_operation_of_the_user_s():
    class Watching(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.add(func.overloadpacket)
            return func(*args, **(kwargs or {}))

    seen = set()
    a = _rows(4, torch.float16)  # the machine converts half precision with torch
    kernel = scaled_sum(COLUMNS, dtype="float16")
    with Watching():
        out = kernel(a, a)
    aten = torch.ops.aten
    assert seen <= {aten.empty, aten.set_, aten.detach}  # the output's tensor
    torch.testing.assert_close(out, a + a)


def test_the_plan_knows_what_a_kernel_writes():
    assert plan_of(scaled_sum(COLUMNS)).written == {2}
    assert plan_of(increment(COLUMNS)).written == {0}
    assert plan_of(two_outputs(4, COLUMNS)).written == {1, 2, 3}


def test_an_output_that_the_kernel_never_writes_is_an_error_of_the_call():
    factory = tilelang.jit(out_idx=[1])(scaled_sum.func)
    a, c = _rows(3), torch.zeros(3, COLUMNS, device="npu")
    with pytest.raises(HazardError, match=r"output b .* is never written; c, which") as e:
        factory(COLUMNS)(a, c)
    assert e.value.code == "AI-INIT-002" and "put 2 in place of 1" in e.value.fix
    assert not c.cpu().any()  # nothing was executed
    with sim.configure(checks=dataclasses.replace(sim.Checks(), uninitialised=False)):
        assert factory(COLUMNS)(a, c).shape == (3, COLUMNS)


# ------------------------------------------------------------------ graphs


def test_a_launch_is_recorded_and_replayed():
    a, b = _rows(3), _rows(3)
    counters.reset()
    graph, c = capture(lambda: scaled_sum(COLUMNS)(a + 1, b))
    assert not counters.snapshot().launches
    assert host(c).view(torch.uint8).eq(0xFF).all()
    graph.replay()
    torch.testing.assert_close(c.cpu(), a.cpu() + 1 + b.cpu())
    a.zero_()
    graph.replay()
    torch.testing.assert_close(c.cpu(), 1 + b.cpu())
    assert counters.snapshot().replayed_launches == {"scaled_sum": 2}
    assert counters.snapshot().launches == {"scaled_sum": 2}


def test_in_place_launches_in_a_graph_keep_their_order():
    x = torch.zeros(2, COLUMNS, device="npu")

    def body():
        increment(COLUMNS)(x, 1.0)
        x.mul_(10)
        increment(COLUMNS)(x, 2.0)

    graph, _ = capture(body)
    graph.replay()
    assert x.eq(12).all().item()
    graph.replay()
    assert x.eq(132).all().item()


# ------------------------------------------------------------------ streams


def test_a_launch_has_its_place_in_the_stream_order():
    a, side = _rows(2), torch.npu.Stream()
    torch.npu.synchronize()
    c = scaled_sum(COLUMNS)(a, a)
    with torch.npu.stream(side):
        scaled_sum(COLUMNS)(a, a)  # two readers are fine
        with pytest.raises(RuntimeError, match="scaled_sum") as error:
            c + 1
    assert error.value.code == "AI-STREAM-001"


def test_a_launch_on_an_old_handle_overtakes_the_task_queue(monkeypatch):
    x = _rows(2)
    handle = torch.npu.current_stream().npu_stream
    increment(COLUMNS)(x, 1.0, stream=handle)
    x.add_(1)
    with pytest.raises(RuntimeError, match="add_") as error:
        increment(COLUMNS)(x, 1.0, stream=handle)
    assert error.value.code == "AI-STREAM-002"
    increment(COLUMNS)(x, 1.0, stream=torch.npu.current_stream().npu_stream)
    x.add_(1)
    increment(COLUMNS)(x, 1.0)  # without stream= the handle is read at the launch
    x.add_(1)
    torch.npu.synchronize()
    increment(COLUMNS)(x, 1.0, stream=handle)
    x.add_(1)
    monkeypatch.setenv("TASK_QUEUE_ENABLE", "0")
    increment(COLUMNS)(x, 1.0, stream=handle)


@pytest.mark.parametrize("stream", [0, 123456, "main"])
def test_unknown_handles(stream):
    with pytest.raises(RuntimeError, match="AI-STREAM-004"):
        increment(COLUMNS)(_rows(1), 1.0, stream=stream)
