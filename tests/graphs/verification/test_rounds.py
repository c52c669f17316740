"""One row more than the largest bucket, and what could not be checked."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from graphs.batch import INPUT_NAMES, DecodeBatch
from graphs.device_api import DeviceApi
from graphs.report import VerificationReport
from graphs.runner import DecodeGraphRunner
from graphs.stats import EagerReason
from graphs.verification import verify
from tests.graphs.harness import Rig, make_rig
from tests.graphs.recording_device import RecordingDeviceApi

BEYOND = "beyond the largest bucket"


def report_of(rig: Rig) -> VerificationReport:
    return verify(rig.runner, rig.model.state, rounds=1)


@pytest.mark.parametrize("strict", [True, False])
def test_a_larger_batch_is_refused_or_counted(api: DeviceApi, strict: bool) -> None:
    report = report_of(make_rig(api, strict=strict))
    report.raise_for_findings()
    assert report.checks[BEYOND] == 1 and report.notes == ()


def test_a_cache_without_room_for_it_is_a_note() -> None:
    report = report_of(make_rig(RecordingDeviceApi(), sizes=[8], num_blocks=9))
    assert report.passed and BEYOND not in report.checks
    assert any("no batch of 9 rows" in note for note in report.notes)
    assert any("no step crosses a block border" in note for note in report.notes)
    assert report.to_dict()["notes"] == list(report.notes)


class Truncates(DecodeGraphRunner):
    """Decodes the rows that fit and forgets the others."""

    def run(self, batch: DecodeBatch) -> torch.Tensor:
        cut = {name: getattr(batch, name)[: self.plan.largest] for name in INPUT_NAMES}
        return super().run(dataclasses.replace(batch, **cut))


class Uncounted(DecodeGraphRunner):
    """Leaves the graph without saying why."""

    def run(self, batch: DecodeBatch) -> torch.Tensor:
        if batch.size > self.plan.largest:
            return self.run_eager(batch)
        return super().run(batch)


class WrongWhenEager(DecodeGraphRunner):
    """The fallback computes something else."""

    def _run_eager(self, batch: DecodeBatch, bucket: int | None) -> torch.Tensor:
        self.stats.eager[EagerReason.BATCH_TOO_LARGE] += 1
        return self.run_eager(batch) * 2


@pytest.mark.parametrize(
    "runner_class, code",
    [
        (Truncates, "AI-VERIFY-013"),
        (Uncounted, "AI-VERIFY-013"),
        (WrongWhenEager, "AI-VERIFY-007"),
    ],
)
def test_a_larger_batch_that_is_served_wrongly(
    api: DeviceApi, runner_class: type[DecodeGraphRunner], code: str
) -> None:
    report = report_of(make_rig(api, runner_class=runner_class))
    (finding,) = report.findings
    assert (finding.code, finding.check, finding.batch_size) == (code, BEYOND, 5)


def test_every_edge_of_every_bucket_is_replayed() -> None:
    sizes: set[int] = set()

    class Notes(DecodeGraphRunner):
        def run(self, batch: DecodeBatch) -> torch.Tensor:
            sizes.add(batch.size)
            return super().run(batch)

    rig = make_rig(RecordingDeviceApi(), sizes=[3, 6, 7], runner_class=Notes, num_blocks=40)
    verify(rig.runner, rig.model.state, rounds=1, depth="off").raise_for_findings()
    assert sizes == {1, 2, 3, 4, 5, 6, 7}
