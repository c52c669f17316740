"""Verification of a correct runner passes, says what it did, and leaves everything as it was."""

from __future__ import annotations

import json

import pytest
import torch

from graphs.batch import DecodeBatch
from graphs.capture import StepFn
from graphs.compare import Tolerance
from graphs.device_api import CpuDeviceApi, DeviceApi, device_api
from graphs.errors import VerificationError
from graphs.kv_state import KvState
from graphs.verification import verify
from tests.graphs.harness import Rig, fill_cache, make_rig, some_batch
from tests.graphs.recording_device import RecordingDeviceApi


@pytest.mark.parametrize("sizes", [(1,), (1, 2, 4), (3, 7), (8,)])
def test_a_correct_runner_passes(api: DeviceApi, sizes: tuple[int, ...]) -> None:
    rig = make_rig(api, sizes=sizes, strict=True)
    report = verify(rig.runner, rig.model.state)
    report.raise_for_findings()
    assert report.passed and report.bitwise_equal and report.max_abs_diff == 0.0
    assert report.buckets == sizes and report.dead_inputs == () and report.rounds == 3
    assert report.proof.replays == report.proof.overwritten > 0
    if report.proof.device_replays is not None:
        assert report.proof.device_replays == report.proof.replays
        assert (report.proof.device_launches or 0) >= report.proof.replays
    assert report.proof.allocations == (None if api.device.type == "cpu" else 0)


@pytest.mark.parametrize("seed", range(5))
def test_any_seed_passes(seed: int) -> None:
    rig = make_rig(RecordingDeviceApi())
    verify(rig.runner, rig.model.state, rounds=1, seed=seed).raise_for_findings()


def test_the_cache_gets_its_content_back(api: DeviceApi) -> None:
    rig = make_rig(api)
    fill_cache(rig.model)
    before = rig.model.state.snapshot()
    verify(rig.runner, rig.model.state, rounds=1)
    after = rig.model.state.snapshot()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_verification_is_not_counted_as_service(api: DeviceApi) -> None:
    rig = make_rig(api)
    rig.runner.run(some_batch(2))
    stats = rig.runner.stats.to_dict()
    verify(rig.runner, rig.model.state, rounds=1)
    assert rig.runner.stats.to_dict() == stats


@pytest.mark.parametrize(
    "depth, comparisons", [("off", 4), ("smallest-bucket", 4 + 7), ("every-bucket", 4 + 21)]
)
def test_depth(depth: str, comparisons: int) -> None:
    """Per deep bucket: the base, five mutated inputs, the block border."""
    rig = make_rig(RecordingDeviceApi())
    report = verify(rig.runner, rig.model.state, rounds=1, depth=depth)  # type: ignore[arg-type]
    assert report.comparisons == comparisons and report.passed


def test_progress_reaches_its_total() -> None:
    seen: list[tuple[int, int]] = []
    rig = make_rig(RecordingDeviceApi())
    verify(rig.runner, rig.model.state, progress=lambda *step: seen.append(step))
    total = seen[-1][1]
    assert total > 12 and seen == [(i, total) for i in range(1, total + 1)]


def test_the_report_is_json(api: DeviceApi) -> None:
    rig = make_rig(api)
    data = json.loads(
        json.dumps(verify(rig.runner, rig.model.state, rounds=1).to_dict(), allow_nan=False)
    )
    assert data["passed"] and data["bitwise_equal"] and data["buckets"] == [1, 2, 4]
    assert data["device"] == str(api.device) and data["first_mismatch"] is None
    levels = {"cpu": "cpu-verified", "npu": "simulated", "cuda": "gpu-measured"}
    assert data["evidence"] == levels[api.device.type]
    assert data["checks"]["round"] == 4 and data["checks"]["mutated seq_lens"] == 3
    assert data["invariance"] == [] and data["soak"] is None


def test_an_input_that_nothing_reads_is_reported_as_dead() -> None:
    def no_positions(step: StepFn) -> StepFn:
        def wrapped(batch: DecodeBatch) -> torch.Tensor:
            fixed = torch.zeros_like(batch.positions)
            return step(
                DecodeBatch(
                    token_ids=batch.token_ids,
                    positions=fixed,
                    slot_mapping=batch.slot_mapping,
                    block_table=batch.block_table,
                    seq_lens=batch.seq_lens,
                )
            )

        return wrapped

    rig = make_rig(RecordingDeviceApi(), wrap_step=no_positions)
    report = verify(rig.runner, rig.model.state, rounds=1)
    assert report.passed and report.dead_inputs == ("positions",)


def test_a_cache_that_just_fits(api: DeviceApi) -> None:
    """Nine blocks for eight sequences: one block each, no border to cross, one guard."""
    rig = make_rig(api, sizes=[8], num_blocks=9)
    assert verify(rig.runner, rig.model.state, rounds=1).passed


def noisy(rig_noise: list[float]) -> object:
    """A step whose results differ a little from run to run."""

    def wrap(step: StepFn) -> StepFn:
        def wrapped(batch: DecodeBatch) -> torch.Tensor:
            rig_noise[0] += 1e-6
            return step(batch) + rig_noise[0]

        return wrapped

    return wrap


def test_a_declared_tolerance_accepts_noise() -> None:
    rig = make_rig(RecordingDeviceApi(), wrap_step=noisy([0.0]))
    tolerance = Tolerance(atol=1e-3, rtol=0.0, reason="adds in any order")
    report = verify(rig.runner, rig.model.state, rounds=1, tolerance=tolerance)
    report.raise_for_findings()
    assert not report.bitwise_equal and 0 < report.max_abs_diff < 1e-3
    assert report.to_dict()["tolerance"]["reason"] == "adds in any order"


# ---------------------------------------------------------------------- what cannot be verified


def start(rig: Rig, **options: object) -> None:
    verify(rig.runner, rig.model.state, **options)  # type: ignore[arg-type]


def test_without_graphs_there_is_nothing_to_verify() -> None:
    with pytest.raises(VerificationError, match="AI-VERIFY-003: 0 captured graphs on cpu"):
        start(make_rig(CpuDeviceApi()))
    with pytest.raises(VerificationError, match="AI-VERIFY-003"):
        start(make_rig(RecordingDeviceApi()), rounds=0)


def test_a_cache_without_room_for_a_guard_block() -> None:
    with pytest.raises(VerificationError, match="AI-VERIFY-002: the KV cache has 4 blocks"):
        start(make_rig(RecordingDeviceApi(), num_blocks=4))


def test_kv_tensors_must_agree() -> None:
    cache = torch.zeros(4, 8, 2)
    for tensors in ({}, {"k": cache, "v": cache[:3]}, {"k": cache[:, :4]}):
        with pytest.raises(VerificationError, match="AI-VERIFY-001"):
            KvState(tensors=tensors, block_size=8)


def test_any_device_index() -> None:
    """A second device, while the first is current."""
    device = pytest.importorskip("kernels_npu.sim.device")
    device.enable(device_count=2)
    assert torch.npu.current_device() == 0  # type: ignore[attr-defined]
    rig = make_rig(device_api("npu:1"), strict=True)
    report = verify(rig.runner, rig.model.state, rounds=1)
    report.raise_for_findings()
    assert report.device == "npu:1" and report.simulated
    assert report.proof.device_replays == report.proof.replays
