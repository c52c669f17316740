from __future__ import annotations

import dataclasses
import gc
import json

import pytest
import torch

from graphs.batch import DecodeBatch
from graphs.buckets import BucketPlan
from graphs.buffers import TENSOR_NAMES
from graphs.capture import StepFn
from graphs.device_api import CpuDeviceApi, DeviceApi
from graphs.errors import GraphError
from graphs.planning import plan_buckets
from graphs.runner import DecodeGraphRunner
from graphs.stats import EagerReason
from kernels_npu import ops, registry
from kernels_npu.errors import UsageError
from tests.graphs.conftest import simulated_npu
from tests.graphs.harness import fill_cache, make_rig, some_batch
from tests.graphs.recording_device import RecordingDeviceApi


def eager(rows: int, length: int = 6) -> torch.Tensor:
    """The toy model's logits for `some_batch(rows)`, computed on the CPU."""
    rig = make_rig(CpuDeviceApi())
    fill_cache(rig.model)
    return rig.runner.run_eager(some_batch(rows, length=length))


# --------------------------------------------------------------------------- capture and replay


@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_replay_computes_the_batch(api: DeviceApi, rows: int) -> None:
    rig = make_rig(api)
    fill_cache(rig.model)
    logits = rig.runner.run(some_batch(rows))
    torch.testing.assert_close(logits.cpu(), eager(rows), rtol=1e-4, atol=1e-4)


def test_capture_touches_no_kv_slot(api: DeviceApi) -> None:
    rig = make_rig(api, capture=False)
    fill_cache(rig.model)
    before = rig.model.state.snapshot()
    rig.runner.capture()
    after = rig.model.state.snapshot()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_capture_records_and_does_not_execute(api: DeviceApi) -> None:
    calls = []

    def counting(step: StepFn) -> StepFn:
        def wrapped(batch: DecodeBatch) -> torch.Tensor:
            calls.append(batch.size)
            return step(batch)

        return wrapped

    rig = make_rig(api, wrap_step=counting, warmups=2)
    # All warm-ups, then one recording per bucket, the largest first; replays never call Python.
    assert calls == [4, 4, 2, 2, 1, 1, 4, 2, 1]
    rig.runner.run(some_batch(3))
    assert len(calls) == 9


def test_two_steps_in_a_row_see_their_own_inputs(api: DeviceApi) -> None:
    rig = make_rig(api)
    fill_cache(rig.model)
    first = rig.runner.run(some_batch(2)).cpu().clone()
    fill_cache(rig.model)
    second = rig.runner.run(some_batch(2, length=8)).cpu().clone()
    torch.testing.assert_close(first, eager(2), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(second, eager(2, length=8), rtol=1e-4, atol=1e-4)


def test_an_input_that_is_not_refreshed_gives_the_old_result(api: DeviceApi) -> None:
    """What a graph is: a replay without a fill computes what the buffers hold."""
    rig = make_rig(api)
    fill_cache(rig.model)
    old = rig.runner.run(some_batch(2)).cpu().clone()
    rig.buffers.logits.fill_(float("nan"))
    rig.runner._graphs[2].replay()
    assert torch.equal(rig.buffers.logits[:2].cpu(), old)


def test_an_empty_batch_runs_nothing(api: DeviceApi) -> None:
    rig = make_rig(api, strict=True)
    assert rig.runner.run(DecodeBatch.empty()).shape == (0, rig.model.vocab_size)
    assert rig.runner.stats.total_replays == 0 and rig.runner.stats.eager_steps == 0


def test_statistics(api: DeviceApi) -> None:
    rig = make_rig(api)
    for rows in (1, 3, 3, 4, 5):
        rig.runner.run(some_batch(rows))
    stats = json.loads(json.dumps(rig.runner.stats.to_dict()))
    assert stats["captures"] == 3
    assert stats["replays"] == 4 and stats["replays_by_bucket"] == {"1": 1, "4": 3}
    assert stats["rows"] == 11 and stats["padded_rows"] == 2
    assert stats["eager_steps"] == 1
    assert stats["fallbacks"] == {"batch larger than the largest bucket": 1}
    assert stats["capture_failures"] == {}
    assert plan_buckets(5, rig.runner.stats.batch_sizes, max_graphs=1).plan.sizes == (5,)
    assert sum(stats["batch_sizes"].values()) == 5 and stats["batch_sizes"]["5"] == 1


def test_reset_and_recapture(api: DeviceApi) -> None:
    rig = make_rig(api)
    fill_cache(rig.model)
    expected = rig.runner.run(some_batch(2)).cpu().clone()
    rig.runner.reset()
    assert rig.runner.captured_buckets == ()
    rig.runner.run(some_batch(2))
    assert rig.runner.stats.eager == {EagerReason.NOT_CAPTURED: 1}
    rig.runner.capture()
    assert rig.runner.stats.captures == 6
    fill_cache(rig.model)
    assert torch.equal(rig.runner.run(some_batch(2)).cpu(), expected)


def test_two_runners_in_one_process(api: DeviceApi) -> None:
    rigs = [make_rig(api), make_rig(api, sizes=[3])]
    for rig in rigs:
        fill_cache(rig.model)
    for rig in (*rigs, *rigs[::-1]):
        fill_cache(rig.model)
        torch.testing.assert_close(
            rig.runner.run(some_batch(3)).cpu(), eager(3), rtol=1e-4, atol=1e-4
        )


# ------------------------------------------------------------------------------ leaving the graph


def test_the_cpu_runs_eagerly_and_says_so() -> None:
    rig = make_rig(CpuDeviceApi())
    fill_cache(rig.model)
    assert torch.equal(rig.runner.run(some_batch(3)), eager(3))
    assert rig.runner.stats.eager == {EagerReason.NO_GRAPHS: 1}


def test_disabled_graphs_are_counted_as_such(api: DeviceApi) -> None:
    rig = make_rig(api, enabled=False)
    rig.runner.run(some_batch(1))
    assert rig.runner.captured_buckets == ()
    assert rig.runner.stats.eager == {EagerReason.DISABLED: 1}


def test_an_empty_plan_is_all_eager(api: DeviceApi) -> None:
    rig = make_rig(api, sizes=[])
    rig.runner.run(some_batch(1))
    assert rig.runner.stats.eager == {EagerReason.BATCH_TOO_LARGE: 1}


@pytest.mark.parametrize("rows, code", [(5, "AI-GRAPH-009"), (2, "AI-GRAPH-010")])
def test_strict_raises_instead(api: DeviceApi, rows: int, code: str) -> None:
    rig = make_rig(api, strict=True, capture=rows == 5)
    with pytest.raises(GraphError, match=code):
        rig.runner.run(some_batch(rows))
    assert rig.runner.stats.eager_steps == 0


def synchronising(size: int, api: DeviceApi) -> object:
    """A step that reads a value back to the host, while it is captured, for one bucket."""

    def wrap(step: StepFn) -> StepFn:
        def wrapped(batch: DecodeBatch) -> torch.Tensor:
            logits = step(batch)
            if batch.size == size and api.is_capturing():
                logits[0, 0].item()
            return logits

        return wrapped

    return wrap


def test_a_failed_capture_leaves_one_bucket_eager(api: DeviceApi) -> None:
    rig = make_rig(api, wrap_step=synchronising(2, api))
    assert rig.runner.captured_buckets == (1, 4)
    assert rig.runner.stats.captures == 2
    # The step's own error, not the one that ending the broken capture raises.
    assert "107027" in str(rig.runner.failures[2]) or "captur" in str(rig.runner.failures[2])
    assert "507903" not in rig.runner.stats.capture_failures[2]
    for rows in (1, 2, 3):
        fill_cache(rig.model)
        logits = rig.runner.run(some_batch(rows)).cpu()
        torch.testing.assert_close(logits, eager(rows), rtol=1e-4, atol=1e-4)
    assert rig.runner.stats.eager == {EagerReason.CAPTURE_FAILED: 1}
    assert not api.is_capturing()


def test_a_failed_capture_is_an_error_when_strict(api: DeviceApi) -> None:
    rig = make_rig(api, wrap_step=synchronising(2, api), strict=True, capture=False)
    with pytest.raises(GraphError, match="AI-GRAPH-007: capturing bucket 2 failed first") as caught:
        rig.runner.capture()
    assert caught.value.__cause__ is rig.runner.failures[2]
    with pytest.raises(GraphError, match="AI-GRAPH-007"):
        rig.runner.run(some_batch(2))
    rig.runner.run(some_batch(4))  # captured before the failure


def test_a_failed_capture_restores_the_current_stream(api: DeviceApi) -> None:
    before = api.current_stream()
    make_rig(api, wrap_step=synchronising(4, api))
    assert api.current_stream() == before


@pytest.mark.parametrize("change", [lambda x: x.half(), lambda x: x[:, 1:], lambda x: x[0]])
def test_logits_that_do_not_fit_are_refused(api: DeviceApi, change: object) -> None:
    def wrap(step: StepFn) -> StepFn:
        return lambda batch: change(step(batch))  # type: ignore[operator]

    with pytest.raises(GraphError, match="AI-GRAPH-008: the step returned"):
        make_rig(api, wrap_step=wrap)


def test_buffers_must_hold_the_largest_bucket() -> None:
    rig = make_rig(CpuDeviceApi())
    with pytest.raises(GraphError, match="AI-GRAPH-004"):
        DecodeGraphRunner(rig.model.step, rig.buffers, BucketPlan.of([5]), rig.api)
    with pytest.raises(GraphError, match="AI-GRAPH-004"):
        DecodeGraphRunner(rig.model.step, rig.buffers, BucketPlan.of([1]), rig.api, warmups=0)


# ------------------------------------------------------------------------------------ addresses


@pytest.mark.parametrize("name", TENSOR_NAMES)
def test_a_reallocated_buffer_is_named(api: DeviceApi, name: str) -> None:
    rig = make_rig(api)
    rig.runner.run(some_batch(2))
    setattr(rig.buffers, name, getattr(rig.buffers, name).clone())
    with pytest.raises(GraphError, match=f"AI-GRAPH-006: static tensor {name} was at 0x"):
        rig.runner.run(some_batch(2))
    rig.buffers._views.clear()
    rig.runner.capture()
    rig.runner.run(some_batch(2))


def test_watched_tensors_are_compared_on_request(api: DeviceApi) -> None:
    rig = make_rig(api, capture=False)
    model = rig.model
    rig.runner._watch = lambda: {"key_cache": model.key_cache}
    rig.runner.capture()
    rig.runner.check_addresses(everything=True)
    model.key_cache = model.key_cache.clone()
    rig.runner.check_addresses()
    with pytest.raises(GraphError, match="AI-GRAPH-006: static tensor key_cache"):
        rig.runner.check_addresses(everything=True)


def test_a_watched_tensor_that_is_gone() -> None:
    api = RecordingDeviceApi()
    held = {"weight": torch.ones(2)}
    rig = make_rig(api, watch=lambda: held)
    held.clear()
    with pytest.raises(GraphError, match="it is gone now"):
        rig.runner.check_addresses(everything=True)


def test_pools_are_shared_and_replaced_after_a_failure() -> None:
    """One pool for all graphs; a failed capture may have spoiled its pool and stream."""
    used = []

    class Api(RecordingDeviceApi):
        def capture(self, graph: object, *, pool: object, stream: object, **options: object):
            used.append((pool, stream))
            return super().capture(graph, pool=pool, stream=stream)

    api = Api()
    make_rig(api)
    assert len({id(pool) for pool, _ in used}) == 1 and len({id(s) for _, s in used}) == 1
    used.clear()
    make_rig(api, wrap_step=synchronising(2, api))
    (four, two, one) = used
    assert four == two and one[0] is not two[0] and one[1] is not two[1]


def test_the_batch_may_be_on_the_device(api: DeviceApi) -> None:
    rig = make_rig(api)
    fill_cache(rig.model)
    expected = rig.runner.run(some_batch(3)).cpu().clone()
    fill_cache(rig.model)
    batch = some_batch(3)
    mixed = dataclasses.replace(batch, token_ids=batch.token_ids.to(api.device))
    assert torch.equal(rig.runner.run(mixed).cpu(), expected)


# --------------------------------------------------------------------------- launches of operators


def test_launches_in_a_graph_count_when_it_is_replayed() -> None:
    """Also those of a reference that stands in for a kernel: nothing falls back in silence."""
    api = simulated_npu()
    gate = torch.ones(4, 2 * 24, dtype=torch.float16, device=api.device)  # 24 columns fit no kernel

    def with_operator(step: StepFn) -> StepFn:
        def wrapped(batch: DecodeBatch) -> torch.Tensor:
            ops.silu_and_mul(gate[: batch.size])
            return step(batch)

        return wrapped

    with registry.strict(False):
        rig = make_rig(api, wrap_step=with_operator, warmups=2)
        assert not rig.runner.failures
        registry.reset_launch_counts()
        rig.runner.capture()
        assert registry.launch_counts() == {("silu_and_mul", "reference"): 3 * 2}  # warm-ups
        registry.reset_launch_counts()
        for rows in (1, 3, 4, 4):
            rig.runner.run(some_batch(rows))
        assert registry.launch_counts() == {("silu_and_mul", "reference"): 4}
        rig.runner.run_eager(some_batch(2))
        assert registry.launch_counts() == {("silu_and_mul", "reference"): 5}


def test_a_failed_capture_says_what_the_operator_said(api: DeviceApi) -> None:
    refused = UsageError("AI-OP-006", "block_size 24", rule="a multiple of 16", fix="pass 32")

    def failing(step: StepFn) -> StepFn:
        def wrapped(batch: DecodeBatch) -> torch.Tensor:
            raise refused

        return wrapped

    with pytest.raises(GraphError, match="AI-OP-006: block_size 24") as caught:
        make_rig(api, wrap_step=failing, strict=True)
    assert caught.value.fix == "pass 32" and caught.value.__cause__ is refused


def test_random_numbers_can_be_drawn_after_a_failed_capture(api: DeviceApi) -> None:
    """A sampler draws them on the device, and goes on eagerly."""

    def reads_back(step: StepFn) -> StepFn:
        return lambda batch: step(batch) * batch.seq_lens.max().item()

    assert make_rig(api, wrap_step=reads_back).runner.failures
    assert torch.rand(3, device=api.device).cpu().isfinite().all()
    assert make_rig(api).runner.captured_buckets == (1, 2, 4)


def test_nothing_is_collected_while_a_graph_is_recorded(api: DeviceApi) -> None:
    """An abandoned graph that is destroyed meanwhile would invalidate the recording."""
    seen = []

    def watched(step: StepFn) -> StepFn:
        def watching(batch: DecodeBatch) -> torch.Tensor:
            if api.is_capturing():
                seen.append(gc.isenabled())
            return step(batch)

        return watching

    make_rig(api, wrap_step=watched)
    assert seen and not any(seen)
    assert gc.isenabled()
