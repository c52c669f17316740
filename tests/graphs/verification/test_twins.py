"""Seeded faults: each is a runner, buffer or step with one mistake, and verification must name it.

The same rig without the mistake passes in `test_verification.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch

from graphs.batch import INPUT_NAMES, DecodeBatch, InputName
from graphs.buffers import DecodeBuffers
from graphs.capture import StepFn
from graphs.device_api import DeviceApi
from graphs.errors import VerificationError
from graphs.report import VerificationReport
from graphs.runner import DecodeGraphRunner
from graphs.verification import verify
from tests.graphs.conftest import simulated_npu
from tests.graphs.harness import Rig, make_rig
from tests.graphs.recording_device import RecordedGraph, RecordingDeviceApi


def findings_of(rig: Rig, **options: Any) -> VerificationReport:
    report = verify(rig.runner, rig.model.state, **options)
    assert not report.passed
    with pytest.raises(VerificationError, match=report.findings[0].code) as caught:
        report.raise_for_findings()
    assert caught.value.report is report
    return report


def codes(report: VerificationReport) -> set[str]:
    return {finding.code for finding in report.findings}


# ------------------------------------------------------------------------------- stale inputs


def buffers_that_skip(name: InputName) -> type[DecodeBuffers]:
    """Buffers whose `fill` forgets one input after the first time, which is the capture's."""

    class Forgetful(DecodeBuffers):
        def fill(self, batch: DecodeBatch, bucket: int) -> None:
            kept = getattr(self, name).clone()
            super().fill(batch, bucket)
            getattr(self, name).copy_(kept)

    return Forgetful


@pytest.mark.parametrize("name", INPUT_NAMES)
def test_an_input_that_is_not_refreshed_is_named(api: DeviceApi, name: InputName) -> None:
    """Among them the classic: sequence lengths of an earlier step."""
    rig = make_rig(api, buffers_class=buffers_that_skip(name))
    report = findings_of(rig, rounds=1)
    assert report.findings[0].code == "AI-VERIFY-005"
    assert report.findings[0].check == f"mutated {name}"
    assert f"the static buffer of {name}" in report.findings[0].message
    stale = [f for f in report.findings if f.code == "AI-VERIFY-005"]
    assert {finding.check for finding in stale} == {f"mutated {name}"}
    assert "AI-VERIFY-007" in codes(report) or "AI-VERIFY-008" in codes(report)
    assert not report.bitwise_equal and report.first_mismatch is not None


@pytest.mark.parametrize("name", INPUT_NAMES)
def test_rounds_alone_see_a_stale_input_too(name: InputName) -> None:
    rig = make_rig(RecordingDeviceApi(), buffers_class=buffers_that_skip(name))
    assert findings_of(rig, depth="off").first_mismatch is not None


def test_a_step_that_baked_in_a_host_value_is_stale() -> None:
    """Lengths read on the host while warming up: the graph repeats the warm-up's."""

    def wrap(step: StepFn) -> StepFn:
        baked: dict[int, torch.Tensor] = {}

        def wrapped(batch: DecodeBatch) -> torch.Tensor:
            if not capturing():
                baked[batch.size] = batch.seq_lens.clone()
            return step(dataclasses.replace(batch, seq_lens=baked[batch.size]))

        return wrapped

    api = RecordingDeviceApi()
    capturing = api.is_capturing
    report = findings_of(make_rig(api, wrap_step=wrap), rounds=1)
    assert report.findings[0].check == "mutated seq_lens"


# -------------------------------------------------------------------- replay that does nothing


def disarm(rig: Rig, buckets: tuple[int, ...]) -> None:
    class Noop:
        def replay(self) -> None:
            pass

        def reset(self) -> None:
            pass

    for bucket in buckets:
        rig.runner._graphs[bucket] = Noop()


@pytest.mark.parametrize("buckets", [(1, 2, 4), (2,), (4,)])
def test_a_replay_that_does_nothing(api: DeviceApi, buckets: tuple[int, ...]) -> None:
    rig = make_rig(api)
    disarm(rig, buckets)
    report = findings_of(rig, rounds=1)
    assert {f.bucket for f in report.findings if f.code == "AI-VERIFY-004"} == set(buckets)
    assert report.proof.overwritten < report.proof.replays and not report.bitwise_equal
    if report.proof.device_replays is not None:
        assert "AI-VERIFY-012" in codes(report)
        assert report.proof.device_replays < report.proof.replays


def test_a_replay_that_only_looks_like_one() -> None:
    """A runner that computes eagerly and counts replays: numbers are right, the device knows."""

    class Pretender(DecodeGraphRunner):
        def run(self, batch: DecodeBatch) -> torch.Tensor:
            bucket = self.plan.bucket_for(batch.size)
            if bucket is None:
                return super().run(batch)
            self.buffers.fill(batch, bucket)
            self.buffers.logits[:bucket].copy_(self.step(self.buffers.slice(bucket)))
            self.stats.count_replay(bucket, batch.size)
            return self.buffers.logits[: batch.size]

    report = findings_of(make_rig(RecordingDeviceApi(), runner_class=Pretender), rounds=1)
    assert codes(report) == {"AI-VERIFY-012"} and report.bitwise_equal


def test_a_runner_that_falls_back_is_no_proof() -> None:
    class Eager(DecodeGraphRunner):
        def run(self, batch: DecodeBatch) -> torch.Tensor:
            return self._run_eager(batch, None)

    report = findings_of(make_rig(RecordingDeviceApi(), runner_class=Eager), rounds=1)
    assert "AI-VERIFY-011" in codes(report)
    assert "left the graph" in next(f for f in report.findings if f.code == "AI-VERIFY-011").message


def test_a_bucket_without_a_graph_is_no_proof() -> None:
    api = RecordingDeviceApi()

    def wrap(step: StepFn) -> StepFn:
        def wrapped(batch: DecodeBatch) -> torch.Tensor:
            if batch.size == 2 and api.is_capturing():
                raise RuntimeError("out of streams")
            return step(batch)

        return wrapped

    report = findings_of(make_rig(api, wrap_step=wrap), rounds=1)
    (finding,) = report.findings
    assert finding.code == "AI-VERIFY-011" and finding.bucket == 2
    assert "out of streams" in finding.message and report.buckets == (1, 4)


def test_the_graph_of_another_bucket() -> None:
    rig = make_rig(RecordingDeviceApi())
    graphs = rig.runner._graphs
    graphs[4] = graphs[2]
    report = findings_of(rig, rounds=1)
    assert "AI-VERIFY-007" in codes(report)


# ------------------------------------------------------------------------------- padding rows


def buffers_that_pad(change: Callable[[DecodeBuffers, int, int], None]) -> type[DecodeBuffers]:
    """Buffers that do something else with the rows after the batch."""

    class Padding(DecodeBuffers):
        def fill(self, batch: DecodeBatch, bucket: int) -> None:
            super().fill(batch, bucket)
            if 0 < batch.size < bucket:
                change(self, batch.size, bucket)

    return Padding


def slot_zero(buffers: DecodeBuffers, size: int, bucket: int) -> None:
    buffers.slot_mapping[size:bucket].fill_(0)


def last_slot(buffers: DecodeBuffers, size: int, bucket: int) -> None:
    buffers.slot_mapping[size:bucket].fill_(24 * 4 - 1)


def first_rows_slot(buffers: DecodeBuffers, size: int, bucket: int) -> None:
    buffers.slot_mapping[size:bucket].copy_(buffers.slot_mapping[: bucket - size])


@pytest.mark.parametrize("change", [slot_zero, last_slot])
def test_a_padding_row_that_writes_a_real_slot(
    api: DeviceApi, change: Callable[[DecodeBuffers, int, int], None]
) -> None:
    rig = make_rig(api, sizes=[4], buffers_class=buffers_that_pad(change))
    report = findings_of(rig)
    assert report.findings[0].code == "AI-VERIFY-006"
    assert "replay wrote 1 KV slots" in report.findings[0].message
    assert report.findings[0].batch_size < report.findings[0].bucket == 4


def test_a_padding_row_that_writes_the_slot_of_a_sequence() -> None:
    """No stray slot: the value is wrong."""
    rig = make_rig(RecordingDeviceApi(), buffers_class=buffers_that_pad(first_rows_slot))
    # Rows of equal slot race; in the toy model the first row wins, so turn its rows around.
    original = rig.model._write

    def last_wins(cache: torch.Tensor, rows: torch.Tensor, slots: torch.Tensor) -> None:
        original(cache, rows.flip(0), slots.flip(0))

    rig.model._write = last_wins  # type: ignore[method-assign]
    rig.runner.capture()
    assert {"AI-VERIFY-007", "AI-VERIFY-008"} & codes(findings_of(rig))


def test_padding_rows_that_keep_the_previous_batch() -> None:
    """Rows are not reset when the batch shrinks within a bucket."""

    class Shrinking(DecodeBuffers):
        def fill(self, batch: DecodeBatch, bucket: int) -> None:
            before = {name: getattr(self, name).clone() for name in INPUT_NAMES}
            super().fill(batch, bucket)
            if batch.size:
                for name, old in before.items():
                    getattr(self, name)[batch.size : bucket].copy_(old[batch.size : bucket])

    rig = make_rig(RecordingDeviceApi(), sizes=[4], buffers_class=Shrinking)
    report = findings_of(rig, depth="off", rounds=1)
    assert report.findings[0].code == "AI-VERIFY-006"


# ---------------------------------------------------------------------------------- addresses


@pytest.mark.parametrize("name", [*INPUT_NAMES, "logits"])
def test_a_static_buffer_that_is_reallocated(api: DeviceApi, name: str) -> None:
    """A fill that replaces a tensor instead of writing into it."""

    class Reallocating(DecodeBuffers):
        def fill(self, batch: DecodeBatch, bucket: int) -> None:
            super().fill(batch, bucket)
            if batch.size:
                setattr(self, name, getattr(self, name).clone())

    report = findings_of(make_rig(api, buffers_class=Reallocating), rounds=1)
    assert report.findings[0].code == "AI-GRAPH-006"
    assert f"static tensor {name}" in report.findings[0].message
    assert not report.bitwise_equal


def test_a_cache_that_is_reallocated(api: DeviceApi) -> None:
    rig = make_rig(api, capture=False)
    rig.runner._watch = lambda: {"value_cache": rig.model.value_cache}
    rig.runner.capture()
    rig.model.value_cache = rig.model.value_cache.clone()
    report = findings_of(rig, rounds=1)
    assert "static tensor value_cache" in report.findings[0].message


def test_a_weight_that_nobody_holds_any_more() -> None:
    """Replaced by an equal one that no runner watches: the values agree until memory is reused."""
    rig = make_rig(simulated_npu())
    rig.model.head = rig.model.head.clone()
    report = findings_of(rig, rounds=1)
    assert "AI-CAP-026" in codes(report)
    assert any("which was freed after the capture" in f.message for f in report.findings)


# ---------------------------------------------------------------------------- faults of the step


def test_a_step_that_reads_the_row_above() -> None:
    def wrap(step: StepFn) -> StepFn:
        def wrapped(batch: DecodeBatch) -> torch.Tensor:
            logits = step(batch)
            return logits + 1e-3 * logits.roll(-1, 0)

        return wrapped

    report = findings_of(make_rig(RecordingDeviceApi(), wrap_step=wrap), rounds=1)
    found = {(f.code, f.check) for f in report.findings if f.bucket == 4}
    assert found == {
        ("AI-VERIFY-009", "changed the other rows"),
        ("AI-VERIFY-009", "changed padding rows"),
    }


def test_a_step_that_reads_unowned_cache_content() -> None:
    rig = make_rig(RecordingDeviceApi(), capture=False)
    step = rig.model.step
    rig.runner.step = lambda batch: step(batch) + rig.model.value_cache.sum()
    rig.runner.capture()
    report = findings_of(rig, rounds=1)
    assert ("AI-VERIFY-009", "changed unowned cache content") in {
        (f.code, f.check) for f in report.findings
    }


def test_a_step_that_reads_a_block_of_nobody() -> None:
    """Times zero, as a mask does: only a NaN tells that it was read."""
    rig = make_rig(RecordingDeviceApi(), sizes=[2], capture=False)
    step = rig.model.step
    rig.runner.step = lambda batch: step(batch) + 0.0 * rig.model.value_cache.sum()
    rig.runner.capture()
    report = findings_of(rig, rounds=1)
    assert {(f.code, f.check) for f in report.findings} == {
        ("AI-VERIFY-009", "changed cache blocks that no block table names")
    }


def test_inputs_that_are_copied_on_a_stream_of_their_own() -> None:
    """Nothing orders the copies before the replay."""
    api = simulated_npu()
    side = api.new_stream()

    class Elsewhere(DecodeBuffers):
        def fill(self, batch: DecodeBatch, bucket: int) -> None:
            if not batch.size:
                return super().fill(batch, bucket)
            with api.use_stream(side):
                return super().fill(batch, bucket)

    report = findings_of(make_rig(api, buffers_class=Elsewhere), rounds=1)
    assert report.findings[0].code == "AI-STREAM-001"


def test_a_step_that_attends_one_token_too_far() -> None:
    def wrap(step: StepFn) -> StepFn:
        return lambda batch: step(dataclasses.replace(batch, seq_lens=batch.seq_lens + 1))

    report = findings_of(make_rig(RecordingDeviceApi(), wrap_step=wrap), rounds=1)
    assert report.findings[0].check == "changed unowned cache content"


def test_a_step_that_is_not_deterministic() -> None:
    def wrap(step: StepFn) -> StepFn:
        count = [0.0]

        def wrapped(batch: DecodeBatch) -> torch.Tensor:
            count[0] += 1e-3
            return step(batch) + count[0]

        return wrapped

    report = findings_of(make_rig(RecordingDeviceApi(), wrap_step=wrap), rounds=1)
    assert "AI-VERIFY-010" in codes(report)


def test_a_graph_that_is_not_deterministic_reads_nothing_foreign() -> None:
    """Only the captured step draws random numbers: no row reads what it does not own."""
    api = simulated_npu()

    def wrap(step: StepFn) -> StepFn:
        def wrapped(batch: DecodeBatch) -> torch.Tensor:
            logits = step(batch)
            return logits + torch.randn_like(logits) if api.is_capturing() else logits

        return wrapped

    found = codes(findings_of(make_rig(api, wrap_step=wrap), rounds=1))
    assert "AI-VERIFY-010" in found and "AI-VERIFY-009" not in found


def test_a_step_that_writes_where_it_should_not_in_eager_too() -> None:
    rig = make_rig(RecordingDeviceApi(), capture=False)
    step, cache = rig.model.step, rig.model.key_cache

    def wrapped(batch: DecodeBatch) -> torch.Tensor:
        logits = step(batch)
        cache[5, 1].mul_(2.0)
        return logits

    rig.runner.step = wrapped
    rig.runner.capture()
    report = findings_of(rig, rounds=1)
    assert {f.code for f in report.findings if f.message.startswith("eager wrote")} == {
        "AI-VERIFY-006"
    }


def test_a_partly_written_output_is_a_mismatch() -> None:
    """The last logit of the first row is computed in eager and never stored by the graph."""

    class Lossy(RecordingDeviceApi):
        def new_graph(self) -> RecordedGraph:
            graph = super().new_graph()
            original = graph.replay

            def replay() -> None:
                original()
                rig.buffers.logits[:1, -1].fill_(float("nan"))

            graph.replay = replay  # type: ignore[method-assign]
            return graph

    rig = make_rig(Lossy())
    report = findings_of(rig, rounds=1)
    assert report.findings[0].code == "AI-VERIFY-007"
    assert report.first_mismatch is not None
    assert report.first_mismatch.index == (0, rig.model.vocab_size - 1)
    assert "got nan" in str(report.first_mismatch)
