"""A runner on a device that is not the current one: everything happens on its own device."""

from __future__ import annotations

import threading

import pytest
import torch

from graphs.batch import DecodeBatch
from graphs.capture import StepFn
from graphs.device_api import CpuDeviceApi, DeviceApi, device_api
from graphs.verification import verify
from tests.graphs.conftest import simulated_npu
from tests.graphs.harness import fill_cache, make_rig, some_batch


@pytest.fixture(params=["npu", pytest.param("cuda", marks=pytest.mark.gpu)])
def second(request: pytest.FixtureRequest) -> DeviceApi:
    """The second device of a kind, while the first one is current."""
    if request.param == "npu":
        simulated_npu()
        from kernels_npu.sim import device

        device.enable(device_count=2)
        torch.npu.set_device(0)
    elif torch.cuda.device_count() < 2:
        pytest.skip("needs two CUDA devices")
    return device_api(f"{request.param}:1")


def current_device(api: DeviceApi) -> int:
    return int(getattr(torch, api.device.type).current_device())


def test_capture_and_replay_on_the_second_device(second: DeviceApi) -> None:
    devices = []

    def wrap(step: StepFn) -> StepFn:
        def wrapped(batch: DecodeBatch) -> torch.Tensor:
            logits = step(batch)
            devices.append((logits.device, second.is_capturing()))
            return logits

        return wrapped

    rig = make_rig(second, strict=True, wrap_step=wrap)
    assert {device for device, _ in devices} == {second.device}
    assert [capturing for _, capturing in devices] == [False] * 6 + [True] * 3
    assert all(tensor.device == second.device for tensor in rig.buffers.tensors())
    plain = make_rig(CpuDeviceApi())
    for rows, length in ((3, 6), (1, 5), (4, 8)):
        fill_cache(rig.model)
        fill_cache(plain.model)
        batch = some_batch(rows, length=length)
        logits = rig.runner.run(batch)
        assert logits.device == second.device
        torch.testing.assert_close(logits.cpu(), plain.runner.run(batch), rtol=1e-4, atol=1e-4)
    assert rig.runner.stats.total_replays == 3 and rig.runner.stats.eager_steps == 0
    assert current_device(second) == 0


def test_a_failed_capture_leaves_the_current_device_alone(second: DeviceApi) -> None:
    def wrap(step: StepFn) -> StepFn:
        def wrapped(batch: DecodeBatch) -> torch.Tensor:
            logits = step(batch)
            if second.is_capturing():
                logits[0, 0].item()
            return logits

        return wrapped

    rig = make_rig(second, wrap_step=wrap)
    assert rig.runner.captured_buckets == () and len(rig.runner.failures) == 3
    assert current_device(second) == 0 and not second.is_capturing()
    before = second.current_stream()
    rig.runner.run(some_batch(2))
    assert second.current_stream() == before


def test_the_parts_of_the_api_name_their_device(second: DeviceApi) -> None:
    first = device_api(f"{second.device.type}:0")
    held = torch.ones(1 << 20, dtype=torch.uint8, device=second.device)
    assert (second.memory().allocated or 0) >= held.numel()
    assert second.new_stream().device == second.current_stream().device == second.device
    graph, stream = second.new_graph(), second.new_stream()
    source = torch.full((4,), 3.0, device=second.device)
    second.synchronize()
    with second.capture(graph, pool=second.new_pool(), stream=stream):
        assert second.is_capturing() and not first.is_capturing()
        result = source * 2
    graph.replay()
    assert result.tolist() == [6.0] * 4 and current_device(second) == 0


def test_runners_on_two_devices_take_turns(second: DeviceApi) -> None:
    rigs = [make_rig(device_api(f"{second.device.type}:{i}"), strict=True) for i in (0, 1)]
    results = []
    for rig in (*rigs, *rigs):
        fill_cache(rig.model)
        results.append(rig.runner.run(some_batch(3)).cpu())
    assert torch.equal(results[0], results[2]) and torch.equal(results[1], results[3])
    torch.testing.assert_close(results[0], results[1], rtol=1e-4, atol=1e-4)


def test_verification_on_the_second_device(second: DeviceApi) -> None:
    rig = make_rig(second, strict=True)
    report = verify(rig.runner, rig.model.state, rounds=1)
    report.raise_for_findings()
    assert report.device == str(second.device)


def test_a_thread_that_is_older_than_a_device() -> None:
    """Devices may be added while a thread that has used the others goes on."""
    from kernels_npu.sim import device
    from kernels_npu.sim.device.state import process

    simulated_npu()
    begin, added, seen = threading.Event(), threading.Event(), []

    def work() -> None:
        torch.ones(2, device="npu:0")
        begin.set()
        added.wait(10)
        seen.append(torch.ones(2, device=f"npu:{len(process.devices) - 1}").tolist())

    thread = threading.Thread(target=work)
    thread.start()
    begin.wait(10)
    count = len(process.devices)
    device.enable(device_count=count + 1)
    added.set()
    thread.join()
    del process.devices[count:]
    assert seen == [[1.0, 1.0]]
