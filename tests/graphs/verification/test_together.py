"""Two runners at once: what they share must be nothing, or in order."""

from __future__ import annotations

import pytest
import torch

from graphs.batch import DecodeBatch
from graphs.buckets import BucketPlan
from graphs.device_api import DeviceApi, device_api
from graphs.runner import DecodeGraphRunner
from graphs.turns import RUNNER, Turn
from graphs.verification import verify_together
from tests.graphs.conftest import simulated_npu
from tests.graphs.harness import Rig, make_rig
from tests.graphs.recording_device import RecordingDeviceApi


def pair(api: DeviceApi) -> tuple[Rig, Rig]:
    return make_rig(api), make_rig(api, sizes=[3])


def test_runners_of_their_own_do_not_mind(api: DeviceApi) -> None:
    first, second = pair(api)
    before = [rig.model.state.snapshot() for rig in (first, second)]
    found = verify_together(
        (first.runner, first.model.state), (second.runner, second.model.state), rounds=2
    )
    assert found == ()
    for rig, content in zip((first, second), before, strict=True):
        after = rig.model.state.snapshot()
        assert all(torch.equal(after[name], content[name]) for name in content)


def test_on_a_device_that_is_not_current() -> None:
    device = pytest.importorskip("kernels_npu.sim.device")
    device.enable(device_count=2)
    first, second = pair(device_api("npu:1"))
    assert torch.npu.current_device() == 0  # type: ignore[attr-defined]
    assert not verify_together(
        (first.runner, first.model.state), (second.runner, second.model.state)
    )


@pytest.mark.parametrize("ordered", [True, False])
def test_runners_on_the_same_static_buffers(ordered: bool) -> None:
    """The turn of the buffers puts their streams in order; without it the device objects."""
    api = simulated_npu()
    first, second = make_rig(api), make_rig(api, capture=False)
    other = DecodeGraphRunner(second.model.step, first.buffers, BucketPlan.of([4]), api)
    other.capture()
    if not ordered:
        other._turn = Turn(RUNNER)
    found = verify_together((first.runner, first.model.state), (other, second.model.state))
    expected = [] if ordered else [("AI-STREAM-001", "two runners at once")]
    assert [(finding.code, finding.check) for finding in found] == expected


def test_a_runner_that_disturbs_the_other_is_found_by_its_values() -> None:
    """Where no order is checked, values must show it."""
    api = RecordingDeviceApi()
    first, second = pair(api)
    weight = first.model.head

    class Disturbs(DecodeGraphRunner):
        def run(self, batch: DecodeBatch) -> torch.Tensor:
            logits = super().run(batch)
            weight.mul_(1.001)  # spoils the other runner's steps from now on
            return logits

    second.runner.__class__ = Disturbs
    found = verify_together(
        (first.runner, first.model.state), (second.runner, second.model.state), rounds=1
    )
    assert {finding.code for finding in found} == {"AI-VERIFY-020"}
    assert found[0].mismatch is not None and found[0].bucket == 4
