"""The first layer that differs, found by capturing prefixes."""

from __future__ import annotations

import json
import math

import pytest
import torch

from graphs.batch import DecodeBatch
from graphs.buffers import DecodeBuffers
from graphs.device_api import DeviceApi
from graphs.report import VerificationReport
from graphs.report_parts import LayerVerdict
from graphs.runner import DecodeGraphRunner
from graphs.verification import verify
from tests.graphs.recording_device import RecordingDeviceApi
from tests.graphs.verification.layered_toy import LayeredToy

LAYERS = 7


def located(report: VerificationReport) -> LayerVerdict:
    """The verdict, which the first finding about values carries and no other."""
    verdicts = [finding.layer for finding in report.findings if finding.layer is not None]
    (verdict,) = verdicts
    assert verdict.num_layers == LAYERS
    return verdict


@pytest.mark.parametrize("faulty", [0, 2, 3, LAYERS - 1])
def test_the_faulty_layer_is_named(faulty: int) -> None:
    model = LayeredToy(RecordingDeviceApi(), LAYERS, faulty)
    report = verify(model.runner(), model.state, rounds=1, layers=model, depth="off")
    verdict = located(report)
    assert verdict.layer == faulty
    assert verdict.captures <= 2 + math.ceil(math.log2(LAYERS + 1))
    assert verdict.mismatch is not None
    assert verdict.mismatch.tensor == f"logits after {faulty + 1} layers"
    text = str(next(f for f in report.findings if f.layer is not None))
    assert f"layer {faulty} of {LAYERS} is the first that differs" in text and "ulp" in text
    data = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert {f["layer"]["layer"] for f in data["findings"] if f["layer"]} == {faulty}


def test_on_every_device(api: DeviceApi) -> None:
    model = LayeredToy(api, LAYERS, 4)
    report = verify(model.runner(), model.state, rounds=1, layers=model, depth="off")
    assert located(report).layer == 4


def test_nothing_is_located_where_nothing_differs(api: DeviceApi) -> None:
    model = LayeredToy(api, 3)
    report = verify(model.runner(), model.state, rounds=1, layers=model)
    report.raise_for_findings()


class StaleTokens(DecodeBuffers):
    def fill(self, batch: DecodeBatch, bucket: int) -> None:
        kept = self.token_ids.clone()
        super().fill(batch, bucket)
        self.token_ids.copy_(kept)


def test_a_fault_of_the_buffers_is_before_all_layers() -> None:
    model = LayeredToy(RecordingDeviceApi(), LAYERS)
    report = verify(model.runner(StaleTokens), model.state, rounds=1, layers=model, depth="off")
    verdict = located(report)
    assert verdict.layer == -1 and "the embedding or the head" in str(verdict)


def test_a_fault_of_the_runner_is_in_no_layer() -> None:
    class Scales(DecodeGraphRunner):
        def run(self, batch: DecodeBatch) -> torch.Tensor:
            return super().run(batch).mul_(1.5)

    model = LayeredToy(RecordingDeviceApi(), LAYERS)
    runner = model.runner()
    runner.__class__ = Scales
    report = verify(runner, model.state, rounds=1, layers=model, depth="off")
    verdict = located(report)
    assert verdict.layer is None and verdict.captures == 1
    assert "the fault is in the runner" in str(verdict)
