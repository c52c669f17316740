"""What a capture keeps, and what it shows and restores when it fails."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable

import pytest
import torch

from graphs.batch import DecodeBatch
from graphs.capture import StepFn
from graphs.device_api import DeviceApi
from tests.graphs.conftest import simulated_npu
from tests.graphs.harness import fill_cache, make_rig, some_batch
from tests.graphs.recording_device import RecordingDeviceApi

Wrap = Callable[[StepFn], StepFn]


def while_recording(api: DeviceApi, act: Callable[[torch.Tensor], object]) -> Wrap:
    """A step that does `act` with its logits while it is recorded."""

    def wrap(step: StepFn) -> StepFn:
        def wrapped(batch: DecodeBatch) -> torch.Tensor:
            logits = step(batch)
            if api.is_capturing():
                act(logits)
            return logits

        return wrapped

    return wrap


def test_nobody_holds_what_the_step_returned() -> None:
    """Its memory belongs to what is captured next, or to the next graph of the pool."""
    api = simulated_npu()
    results: list[weakref.ref[torch.Tensor]] = []
    make_rig(
        api, wrap_step=while_recording(api, lambda logits: results.append(weakref.ref(logits)))
    )
    assert len(results) == 3 and all(result() is None for result in results)


def test_what_a_step_keeps_is_overwritten_by_the_next_replay() -> None:
    """A kept tensor is memory of the graph: its values are those of the last replay."""
    api = simulated_npu()
    kept: list[torch.Tensor] = []
    rig = make_rig(api, sizes=[2], wrap_step=while_recording(api, kept.append))
    for length in (6, 7):
        fill_cache(rig.model)
        logits = rig.runner.run(some_batch(2, length=length))
        assert torch.equal(kept[0].cpu(), logits.cpu())


def swallowed(logits: torch.Tensor) -> None:
    with contextlib.suppress(RuntimeError):
        logits[0, 0].item()


def swallowed_and_more(logits: torch.Tensor) -> None:
    swallowed(logits)
    logits.add_(1)


@pytest.mark.parametrize("act", [swallowed, swallowed_and_more])
def test_an_error_that_the_step_swallowed_is_the_one_shown(
    act: Callable[[torch.Tensor], None],
) -> None:
    """The device only says later that the capture is invalid; the reason is what helps."""
    api = simulated_npu()
    rig = make_rig(api, wrap_step=while_recording(api, act))
    assert rig.runner.captured_buckets == ()
    for bucket, error in rig.runner.failures.items():
        assert getattr(error, "acl_error", None) == 107027
        assert "507903" not in rig.runner.stats.capture_failures[bucket]


def test_state_is_as_before_a_failed_capture(api: DeviceApi) -> None:
    def fail(logits: torch.Tensor) -> None:
        raise ValueError("not while recording")

    before = api.current_stream()
    with torch.enable_grad():
        rig = make_rig(api, wrap_step=while_recording(api, fail))
        assert torch.is_grad_enabled()
    assert api.current_stream() == before and not api.is_capturing()
    assert set(rig.runner.stats.capture_failures.values()) == {"ValueError: not while recording"}
    fill_cache(rig.model)
    eager = rig.runner.run(some_batch(3)).cpu()
    good = make_rig(api, strict=True)
    fill_cache(good.model)
    torch.testing.assert_close(good.runner.run(some_batch(3)).cpu(), eager)


def test_an_interrupted_capture_can_be_repeated() -> None:
    api = RecordingDeviceApi()
    interrupt = [True]

    def act(logits: torch.Tensor) -> None:
        if interrupt:
            interrupt.clear()
            raise KeyboardInterrupt

    rig = make_rig(api, wrap_step=while_recording(api, act), capture=False)
    with pytest.raises(KeyboardInterrupt):
        rig.runner.capture()
    rig.runner.capture()
    assert rig.runner.captured_buckets == (1, 2, 4)
    rig.runner.run(some_batch(2))
