"""What stands in the way of a capture is named before anything is captured."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphs.batch import DecodeBatch
from graphs.buckets import BucketPlan
from graphs.capture import StepFn
from graphs.device_api import DeviceApi, MemoryFigures
from graphs.environment import ENVIRONMENT, EnvironmentRule
from graphs.errors import GraphError
from graphs.preflight import check_setup, check_warm_up
from graphs.stats import EagerReason
from graphs.warmup import WarmUp, observe
from tests.graphs.conftest import simulated_npu
from tests.graphs.harness import Rig, make_rig, some_batch
from tests.graphs.recording_device import RecordingDeviceApi


def codes(rig: Rig) -> list[str]:
    return [finding.code for finding in rig.runner.stats.preflight]


def test_a_good_setup_has_no_findings(api: DeviceApi) -> None:
    rig = make_rig(api, strict=True)
    assert rig.runner.stats.preflight == ()
    assert rig.runner.captured_buckets == (1, 2, 4)
    assert rig.runner.stats.to_dict()["preflight"] == []


# ------------------------------------------------------------------------------- environment

GOOD = {
    "ASCEND_LAUNCH_BLOCKING": "0",
    "TASK_QUEUE_ENABLE": "1",
    "CUDA_LAUNCH_BLOCKING": "0",
    "PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True",
}


@pytest.mark.parametrize("rule", ENVIRONMENT, ids=lambda rule: rule.variable)
def test_each_setting_is_found_on_its_device_only(rule: EnvironmentRule) -> None:
    value = rule.contains if rule.whole else f"max_split_size_mb:8, {rule.contains}"
    assert rule.applies({rule.variable: value}, rule.device)
    assert not rule.applies({rule.variable: value}, "cpu")
    assert not rule.applies(GOOD, rule.device) and not rule.applies({}, rule.device)


def test_a_setting_that_excludes_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASK_QUEUE_ENABLE", "2")
    rig = make_rig(simulated_npu())
    assert codes(rig) == ["AI-GRAPH-023"] and not rig.runner.captured_buckets
    assert "TASK_QUEUE_ENABLE=2" in rig.runner.stats.capture_failures[4]
    rig.runner.run(some_batch(2))
    assert rig.runner.stats.eager == {EagerReason.CAPTURE_FAILED: 1}
    found = json.loads(json.dumps(rig.runner.stats.to_dict()))["preflight"][0]
    assert found["severity"] == "error" and "TASK_QUEUE_ENABLE=1" in found["fix"]
    monkeypatch.setenv("TASK_QUEUE_ENABLE", "1")
    rig.runner.capture()
    assert codes(rig) == [] and rig.runner.captured_buckets == (1, 2, 4)


def test_strict_raises_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    rig = make_rig(
        simulated_npu(),
        strict=True,
        capture=False,
        wrap_step=lambda step: lambda batch: calls.append(batch.size) or step(batch),
    )
    monkeypatch.setenv("ASCEND_LAUNCH_BLOCKING", "1")
    with pytest.raises(GraphError, match="AI-GRAPH-023: ASCEND_LAUNCH_BLOCKING=1 is set"):
        rig.runner.capture()
    assert calls == [] and rig.runner.captured_buckets == ()


# ------------------------------------------------------------------- static tensors and streams


@pytest.mark.parametrize(
    "name, change, said",
    [
        ("seq_lens", lambda t: t.cpu(), "torch.int32 on cpu"),
        ("block_table", lambda t: t.long(), "torch.int64 on npu:0, expected torch.int32"),
        ("logits", lambda t: t.int(), "expected a floating dtype on npu:0"),
    ],
)
def test_a_static_tensor_of_the_wrong_kind(
    name: str, change: Callable[[torch.Tensor], torch.Tensor], said: str
) -> None:
    """Among them lengths that were made on the host: a constant in every graph."""
    rig = make_rig(simulated_npu(), strict=True, capture=False)
    setattr(rig.buffers, name, change(getattr(rig.buffers, name)))
    with pytest.raises(GraphError, match=f"AI-GRAPH-024: static tensor {name} is .*{said}"):
        rig.runner.capture()


def test_streams_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    api = simulated_npu()
    rig = make_rig(api)
    free = api.stream_budget()
    assert free is not None and 3 < free < 1984
    rig.runner.reset()
    assert api.stream_budget() == free + 3
    monkeypatch.setattr(api, "stream_budget", lambda: 2)
    (finding,) = check_setup(api, rig.runner.plan, rig.buffers, {})
    assert finding.code == "AI-GRAPH-025" and "3 graphs" in finding.what
    assert not list(check_setup(api, BucketPlan.of([1, 2]), rig.buffers, {}))


@pytest.mark.parametrize(
    "chip, budget", [("Ascend910B3", 1984 - 248), ("Ascend310P3", 1024 - 248), ("Ascend1", None)]
)
def test_a_real_npu_has_the_limit_of_its_chip(chip: str, budget: int | None) -> None:
    namespace = SimpleNamespace(get_device_name=lambda device: chip)
    api = DeviceApi(SimpleNamespace(type="npu", index=0), namespace)  # type: ignore[arg-type]
    api.simulated = False
    assert api.stream_budget() == budget
    assert DeviceApi(torch.device("cpu"), namespace).stream_budget() is None


# ------------------------------------------------------------------------------ after warm-up

WARM = WarmUp(failures={}, recompiled={}, unread=(), peak_bytes=1000)


def with_memory(free: int, cached: int) -> DeviceApi:
    class Api(RecordingDeviceApi):
        def memory(self) -> MemoryFigures:
            return MemoryFigures(free=free, total=9999, allocated=50, reserved=50 + cached)

    return Api()


@pytest.mark.parametrize(
    "free, cached, found", [(1000, 0, False), (900, 100, False), (900, 99, True)]
)
def test_memory_against_the_largest_step(free: int, cached: int, found: bool) -> None:
    findings = list(check_warm_up(with_memory(free, cached), WARM))
    assert [f.code for f in findings] == ["AI-GRAPH-026"] * found
    if found:
        assert "1,000 bytes, 999 are available" in findings[0].what


def test_the_peak_of_a_step_is_seen() -> None:
    api = simulated_npu()
    torch.npu.empty_cache()
    with api.peak_memory() as peak:
        for size in (1000, 3000, 2000):
            torch.empty(size, dtype=torch.uint8, device=api.device)
    seen = peak()
    assert seen is not None and 3000 <= seen < 6000


def test_a_kernel_that_is_compiled_in_every_run() -> None:
    api = simulated_npu()
    from kernels_npu.sim.frontend.shims import tilelang
    from tests.kernels_npu.sim.device.kernels import increment

    x = torch.ones(3, 32, device=api.device)
    once = increment(32)

    def launching(kernel: Callable[[], Any]) -> Callable[[StepFn], StepFn]:
        def wrap(step: StepFn) -> StepFn:
            def wrapped(batch: DecodeBatch) -> torch.Tensor:
                kernel()(x, 1.0)
                return step(batch)

            return wrapped

        return wrap

    anew = make_rig(api, wrap_step=launching(lambda: tilelang.compile(once.prim_func)))
    assert codes(anew) == ["AI-GRAPH-027"] * 3 and not anew.runner.captured_buckets
    assert "1 kernels were compiled again" in anew.runner.stats.preflight[0].what
    with pytest.raises(GraphError, match="AI-GRAPH-027"):
        make_rig(
            api,
            strict=True,
            wrap_step=launching(lambda: tilelang.compile(once.prim_func)),
        )
    cached = make_rig(api, strict=True, wrap_step=launching(lambda: once))
    assert codes(cached) == [] and cached.runner.captured_buckets == (1, 2, 4)


# --------------------------------------------------------------------------------- read inputs


@pytest.mark.parametrize("name", ["seq_lens", "slot_mapping"])
def test_an_input_that_the_step_keeps_elsewhere(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    def wrap(step: StepFn) -> StepFn:
        kept = some_batch(4)

        def wrapped(batch: DecodeBatch) -> torch.Tensor:
            return step(dataclasses.replace(batch, **{name: getattr(kept, name)[: batch.size]}))

        return wrapped

    with caplog.at_level(logging.WARNING):
        rig = make_rig(RecordingDeviceApi(), wrap_step=wrap, strict=True)
    (finding,) = rig.runner.stats.preflight
    assert (finding.code, finding.severity) == ("AI-GRAPH-028", "warning")
    assert f"does not take {name} from" in finding.what and name in caplog.text
    assert rig.runner.captured_buckets == (1, 2, 4)  # the model may have no use for it


def test_an_observed_batch_is_the_batch() -> None:
    batch, seen = some_batch(3), set[str]()
    observed = observe(batch, seen)
    assert observed.size == 3 and seen == set()
    assert observed.seq_lens is batch.seq_lens and seen == {"seq_lens"}
    changed = dataclasses.replace(observed, seq_lens=batch.seq_lens + 1)
    assert torch.equal(changed.seq_lens, batch.seq_lens + 1)
    assert changed.token_ids is batch.token_ids and isinstance(changed, DecodeBatch)


def test_a_failed_warm_up_leaves_its_bucket_eager(api: DeviceApi) -> None:
    """And what it enqueued before is ordered before the next bucket."""

    def wrap(step: StepFn) -> StepFn:
        def wrapped(batch: DecodeBatch) -> torch.Tensor:
            logits = step(batch)
            if batch.size == 2:
                raise ValueError("no kernel for two rows")
            return logits

        return wrapped

    rig = make_rig(api, wrap_step=wrap)
    assert rig.runner.captured_buckets == (1, 4)
    assert rig.runner.stats.capture_failures == {2: "ValueError: no kernel for two rows"}
    rig.runner.run(some_batch(3))
    assert rig.runner.stats.replays == {4: 1}
