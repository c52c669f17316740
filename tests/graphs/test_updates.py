"""Launches with host parameters: the graph follows the batch, or says that it cannot."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

from graphs.batch import DecodeBatch
from graphs.buckets import BucketPlan
from graphs.buffers import DecodeBuffers
from graphs.device_api import CpuDeviceApi, DeviceApi
from graphs.errors import GraphError
from graphs.runner import DecodeGraphRunner
from graphs.stats import EagerReason
from graphs.toy_model import ToyDecoder
from graphs.updates import HostUpdates
from graphs.verification import verify
from tests.graphs.conftest import cuda, simulated_npu
from tests.graphs.harness import MAX_BLOCKS, fill_cache, some_batch
from tests.graphs.recording_device import RecordingDeviceApi

COLUMNS = 32


def tokens_in(rows: DecodeBatch) -> dict[str, float]:
    """The host parameter of the tests: all tokens that the step attends to."""
    return {"amount": float(rows.seq_lens.numpy().sum()) / 8}


class Offset:
    """A runner whose logits are the toy model's plus a number that the host computes."""

    def __init__(
        self,
        api: DeviceApi,
        *,
        host: Callable[[DecodeBatch], dict[str, Any]] = tokens_in,
        updates_class: type[HostUpdates] = HostUpdates,
        add: Callable[[torch.Tensor, float], object] | None = None,
        **options: Any,
    ) -> None:
        self.model = ToyDecoder(api.device)
        self.updates = updates_class(api)
        self.host = host
        self.add = add or (lambda offsets, amount: torch.add(offsets, amount, out=offsets))
        plan = BucketPlan.of((1, 2, 4))
        buffers = DecodeBuffers.allocate(
            api,
            max_batch=4,
            max_blocks=MAX_BLOCKS,
            vocab_size=self.model.vocab_size,
            logits_dtype=torch.float32,
        )
        self.runner = DecodeGraphRunner(
            self.step, buffers, plan, api, updates=self.updates, **options
        )
        self.runner.capture()

    def step(self, batch: DecodeBatch) -> torch.Tensor:
        logits = self.model.step(batch)
        offsets = torch.zeros(batch.size, COLUMNS, device=logits.device)
        self.updates.launch("offset", lambda amount: self.add(offsets, amount), self.host)
        return logits + offsets[:, :1]


def plain(batch: DecodeBatch) -> torch.Tensor:
    model = ToyDecoder("cpu")
    fill_cache(model)
    return model.step(batch) + tokens_in(batch)["amount"]


def increment_kernel() -> Callable[[torch.Tensor, float], object]:
    from tests.kernels_npu.sim.device.kernels import increment

    return increment(COLUMNS)


@pytest.mark.parametrize("kernel", [False, True])
def test_the_graph_follows_the_host(kernel: bool) -> None:
    """A PyTorch operation and a kernel whose scalar argument changes from step to step."""
    api = simulated_npu()
    case = Offset(api, strict=True, add=increment_kernel() if kernel else None)
    for rows, length in ((3, 6), (3, 6), (3, 7), (1, 5), (4, 8), (3, 6)):
        fill_cache(case.model)
        batch = some_batch(rows, length=length)
        logits = case.runner.run(batch).cpu()
        torch.testing.assert_close(logits, plain(batch), rtol=1e-4, atol=1e-4)
    assert case.runner.stats.total_replays == 6 and case.runner.stats.eager_steps == 0
    # The second step changed nothing; the last one follows other values in the same bucket.
    assert case.updates.updated == 5


def test_replays_are_proved_equal_to_eager() -> None:
    case = Offset(simulated_npu(), strict=True)
    verify(case.runner, case.model.state, rounds=1).raise_for_findings()


def test_an_update_that_is_forgotten_is_found() -> None:
    class Forgetful(HostUpdates):
        def apply(self, bucket: int, batch: DecodeBatch) -> None:
            pass

    case = Offset(simulated_npu(), updates_class=Forgetful)
    report = verify(case.runner, case.model.state, rounds=1)
    assert not report.passed and not report.bitwise_equal


def test_values_that_change_in_place_are_seen() -> None:
    shared: list[float] = [0.0]

    def host(rows: DecodeBatch) -> dict[str, Any]:
        shared[0] = tokens_in(rows)["amount"]
        return {"amount": shared}

    case = Offset(
        simulated_npu(),
        host=host,
        add=lambda offsets, amount: torch.add(offsets, amount[0], out=offsets),
    )
    for length in (6, 7):
        fill_cache(case.model)
        batch = some_batch(2, length=length)
        logits = case.runner.run(batch).cpu()
        torch.testing.assert_close(logits, plain(batch), rtol=1e-4, atol=1e-4)


def test_eager_steps_need_no_update() -> None:
    for api in (CpuDeviceApi(), simulated_npu()):
        case = Offset(api, enabled=False)
        fill_cache(case.model)
        batch = some_batch(3)
        logits = case.runner.run(batch).cpu()
        torch.testing.assert_close(logits, plain(batch), rtol=1e-4, atol=1e-4)
        assert case.updates.updated == 0


def test_recapture_forgets_the_old_launches() -> None:
    case = Offset(simulated_npu(), strict=True)
    case.runner.capture()
    fill_cache(case.model)
    batch = some_batch(4)
    torch.testing.assert_close(case.runner.run(batch).cpu(), plain(batch), rtol=1e-4, atol=1e-4)
    case.runner.reset()
    assert case.updates._captured == {}


@pytest.mark.parametrize("kind", ["recording", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_device_that_cannot_update_says_so(kind: str) -> None:
    """Rather than repeating the values of the capture."""
    api = RecordingDeviceApi() if kind == "recording" else cuda()
    case = Offset(api)
    assert case.runner.captured_buckets == ()
    assert all("AI-GRAPH-030" in text for text in case.runner.stats.capture_failures.values())
    fill_cache(case.model)
    batch = some_batch(2)
    torch.testing.assert_close(case.runner.run(batch).cpu(), plain(batch), rtol=1e-4, atol=1e-4)
    assert case.runner.stats.eager == {EagerReason.CAPTURE_FAILED: 1}


def test_a_failed_update_is_not_taken_for_the_old_values() -> None:
    """The launch was replaced before the error: the graph no longer has what it had."""
    api = simulated_npu()
    fail = [False]

    def add(offsets: torch.Tensor, amount: float) -> None:
        torch.add(offsets, amount, out=offsets)
        if fail[0]:
            raise ValueError("after the launch")

    case = Offset(api, add=add, strict=True)
    short, longer = some_batch(2, length=6), some_batch(2, length=7)
    case.runner.run(short)
    fail[0] = True
    with pytest.raises(ValueError, match="after the launch"):
        case.runner.run(longer)
    fail[0] = False
    fill_cache(case.model)
    logits = case.runner.run(short).cpu()
    torch.testing.assert_close(logits, plain(short), rtol=1e-4, atol=1e-4)


def test_steps_of_two_threads_have_their_own_rows() -> None:
    """Eager steps may run in several threads; each computes with its own host parameters."""
    case = Offset(CpuDeviceApi())
    other = threading.Thread(target=case.runner.run_eager, args=(some_batch(1),))
    inside: list[float] = []

    def host(rows: DecodeBatch) -> dict[str, float]:
        if rows.size == 2:
            other.start()
            other.join()
        inside.append(tokens_in(rows)["amount"])
        return tokens_in(rows)

    case.host = host
    fill_cache(case.model)
    batch = some_batch(2)
    torch.testing.assert_close(case.runner.run_eager(batch), plain(batch))
    assert len(inside) == 2


def test_misuse_is_named() -> None:
    api = simulated_npu()
    with pytest.raises(GraphError, match="AI-GRAPH-029: x is launched outside of a step"):
        HostUpdates(api).launch("x", lambda: None, lambda rows: {})

    with pytest.raises(GraphError, match=r"AI-GRAPH-007.*AI-GRAPH-029: offset: amount among"):
        Offset(api, strict=True, host=lambda rows: {"amount": rows.seq_lens})

    class Twice(Offset):
        def step(self, batch: DecodeBatch) -> torch.Tensor:
            super().step(batch)
            return super().step(batch)

    with pytest.raises(GraphError, match="AI-GRAPH-029: two launches of one step are called"):
        Twice(api, strict=True)


def test_an_operator_that_launches_something_else_is_refused_by_the_device() -> None:
    api = simulated_npu()

    def add(offsets: torch.Tensor, amount: float) -> None:
        if amount:
            torch.add(offsets, amount, out=offsets)

    case = Offset(api, add=add)  # captured with padding, amount 0: nothing was launched
    with pytest.raises(RuntimeError, match="AI-CAP-023"):
        case.runner.run(some_batch(2))
    assert api.current_stream() == torch.npu.default_stream()
