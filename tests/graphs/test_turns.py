"""One thread at a time in a runner and in a pool, one capture in the process, streams in order."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch

from graphs.batch import DecodeBatch
from graphs.capture import StepFn
from graphs.device_api import DeviceApi
from graphs.errors import GraphError
from graphs.runner import DecodeGraphRunner
from graphs.turns import RUNNER, Turn, capture_turn, pool_turn
from tests.graphs.conftest import simulated_npu
from tests.graphs.harness import Rig, fill_cache, make_rig, some_batch
from tests.graphs.recording_device import RecordingDeviceApi


def in_a_thread(work: Callable[[], object]) -> BaseException | None:
    """What `work` raised in another thread."""
    raised: list[BaseException | None] = [None]

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - handed to the caller
            raised[0] = error

    thread = threading.Thread(target=run, name="second")
    thread.start()
    thread.join()
    return raised[0]


def refusal(work: Callable[[], object]) -> str:
    error = in_a_thread(work)
    assert isinstance(error, GraphError), error
    assert "by thread 'MainThread', and called from thread 'second'" in error.what and error.fix
    return error.code


def during_fill(rig: Rig, work: Callable[[], object]) -> None:
    """Do `work` while the runner is in the middle of a step."""
    fill = rig.buffers.fill

    def filling(batch: DecodeBatch, bucket: int) -> None:
        fill(batch, bucket)
        work()

    rig.buffers.fill = filling  # type: ignore[method-assign]
    rig.runner.run(some_batch(2))
    rig.buffers.fill = fill  # type: ignore[method-assign]


@pytest.mark.parametrize("call", ["run", "capture", "reset"])
def test_a_second_thread_in_the_runner_is_refused(api: DeviceApi, call: str) -> None:
    rig = make_rig(api)
    calls = {
        "run": lambda: rig.runner.run(some_batch(1)),
        "capture": rig.runner.capture,
        "reset": rig.runner.reset,
    }
    seen = []
    during_fill(rig, lambda: seen.append(refusal(calls[call])))
    assert seen == ["AI-GRAPH-020"]
    assert rig.runner.captured_buckets == (1, 2, 4) and rig.runner.stats.total_replays == 1
    assert in_a_thread(lambda: rig.runner.run(some_batch(1))) is None  # in turn: any thread


def test_the_same_thread_is_refused_too() -> None:
    rig = make_rig(RecordingDeviceApi())
    with pytest.raises(GraphError, match=r"AI-GRAPH-020: the runner, .* by this same thread"):
        during_fill(rig, lambda: rig.runner.run(some_batch(1)))


def test_runners_with_the_same_buffers_are_one_runner(api: DeviceApi) -> None:
    rig = make_rig(api)
    twin = DecodeGraphRunner(rig.model.step, rig.buffers, rig.runner.plan, api)
    twin.capture()
    seen: list[str] = []
    during_fill(rig, lambda: seen.append(refusal(lambda: twin.run(some_batch(1)))))
    assert seen == ["AI-GRAPH-020"]
    twin.run(some_batch(1))


def test_an_error_in_a_step_ends_the_turn(api: DeviceApi) -> None:
    rig = make_rig(api)
    logits = rig.buffers.logits
    rig.buffers.logits = logits.clone()
    with pytest.raises(GraphError, match="AI-GRAPH-006"):
        rig.runner.run(some_batch(1))
    rig.buffers.logits = logits
    rig.runner.run(some_batch(1))


# --------------------------------------------------------------------------------------- capture


def while_capturing(api: DeviceApi, work: Callable[[], object]) -> Rig:
    """Do `work` once, while the largest bucket of a runner is recorded."""
    done: list[bool] = []

    def wrap(step: StepFn) -> StepFn:
        def wrapped(batch: DecodeBatch) -> torch.Tensor:
            logits = step(batch)
            if api.is_capturing() and not done:
                done.append(True)
                work()
            return logits

        return wrapped

    rig = make_rig(api, wrap_step=wrap)
    assert done
    return rig


def test_nothing_runs_and_nothing_else_captures_during_a_capture(api: DeviceApi) -> None:
    other, uncaptured = make_rig(api), make_rig(api, capture=False)
    calls: list[Callable[[], object]] = [
        other.runner.capture,
        lambda: other.runner.run(some_batch(1)),
        lambda: uncaptured.runner.run(some_batch(1)),
    ]
    seen: list[str] = []
    rig = while_capturing(api, lambda: seen.extend(map(refusal, calls)))
    assert seen == ["AI-GRAPH-022"] * 3
    assert rig.runner.captured_buckets == other.runner.captured_buckets == (1, 2, 4)
    other.runner.run(some_batch(1))
    rig.runner.run(some_batch(1))


def test_a_step_that_replays_another_runner_cannot_be_captured(api: DeviceApi) -> None:
    inner = make_rig(api)

    def wrap(step: StepFn) -> StepFn:
        return lambda batch: inner.runner.run(some_batch(batch.size))

    outer = make_rig(api, wrap_step=wrap)
    assert outer.runner.captured_buckets == ()
    assert all("AI-GRAPH-022" in text for text in outer.runner.stats.capture_failures.values())


def test_a_capture_that_fails_ends_its_turn() -> None:
    def wrap(step: StepFn) -> StepFn:
        def wrapped(batch: DecodeBatch) -> torch.Tensor:
            raise KeyboardInterrupt

        return wrapped

    rig = make_rig(RecordingDeviceApi(), wrap_step=wrap, capture=False)
    with pytest.raises(KeyboardInterrupt):
        rig.runner.capture()
    capture_turn.refuse_while_taken()
    rig.runner.reset()


# ------------------------------------------------------------------------------------------ pools


def expected(rows: int, length: int = 6) -> torch.Tensor:
    rig = make_rig(RecordingDeviceApi(), capture=False)
    fill_cache(rig.model)
    return rig.runner.run_eager(some_batch(rows, length=length))


def test_two_runners_in_one_pool_take_turns(api: DeviceApi) -> None:
    first = make_rig(api)
    second = make_rig(api, pool=first.runner.pool)
    assert first.runner.pool == second.runner.pool
    for rig in (first, second, first):
        fill_cache(rig.model)
        logits = rig.runner.run(some_batch(3)).cpu()
        torch.testing.assert_close(logits, expected(3), rtol=1e-4, atol=1e-4)


def test_two_runners_in_one_pool_at_the_same_time(api: DeviceApi) -> None:
    first = make_rig(api)
    second, separate = make_rig(api, pool=first.runner.pool), make_rig(api)
    seen = []
    during_fill(first, lambda: seen.append(refusal(lambda: second.runner.run(some_batch(1)))))
    assert seen == ["AI-GRAPH-021"]
    # The refused runner is free again, and one with a pool of its own was never in the way.
    second.runner.run(some_batch(1))
    others = []
    during_fill(
        first, lambda: others.append(in_a_thread(lambda: separate.runner.run(some_batch(1))))
    )
    assert others == [None]


def test_a_handle_means_one_pool_however_it_was_shared() -> None:
    """An API that gives out the same handle twice does not get two turns for it."""
    handle = object()
    turn = pool_turn("npu:0", handle)
    assert pool_turn("npu:0", handle) is turn
    assert pool_turn("npu:1", handle) is not turn and pool_turn("npu:0", object()) is not turn


# ---------------------------------------------------------------------------------------- streams


def test_steps_on_changing_streams_are_ordered() -> None:
    """Static buffers are written by every step: on another stream that needs an order."""
    api = simulated_npu()
    rig = make_rig(api)
    fill_cache(rig.model)
    api.synchronize()
    for length in (6, 5, 8):
        with api.use_stream(api.new_stream()):
            rig.runner.run(some_batch(2, length=length))
    api.current_stream().wait_stream(rig.runner._turn._stream)
    logits = rig.buffers.logits[:2].cpu()
    assert logits.isfinite().all()


def test_without_the_order_the_device_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    api = simulated_npu()
    rig = make_rig(api)
    monkeypatch.setattr(Turn, "take", lambda self, stream=None: self._lock.acquire())
    rig.runner.run(some_batch(2))
    with api.use_stream(api.new_stream()), pytest.raises(RuntimeError, match="AI-STREAM-001"):
        rig.runner.run(some_batch(2))


def test_runners_of_one_pool_on_two_streams_are_ordered() -> None:
    api = simulated_npu()
    first = make_rig(api)
    second = make_rig(api, pool=first.runner.pool)
    streams = [api.new_stream(), api.new_stream()]
    api.synchronize()
    for rig, stream in zip((first, second, first), (*streams, streams[0])):
        with api.use_stream(stream):
            rig.runner.run(some_batch(2))
    newest, other = streams[0]._state, streams[1]._state
    assert newest.known[other.uid] == other.seq


def test_a_turn_that_cannot_be_ordered_is_not_taken() -> None:
    class Stream:
        def wait_stream(self, other: object) -> None:
            raise RuntimeError("the device is gone")

    turn = Turn(RUNNER)
    with turn.held(Stream()):
        pass
    for _ in range(2):
        with pytest.raises(RuntimeError, match="the device is gone"):
            turn.take(Stream())
    turn.refuse_while_taken()


def test_a_turn_is_free_after_its_body() -> None:
    turn = Turn(RUNNER)
    with pytest.raises(ZeroDivisionError), turn.held():
        1 / 0
    turn.take()
    with pytest.raises(GraphError):
        turn.refuse_while_taken()
    turn.give_back()
    turn.refuse_while_taken()
