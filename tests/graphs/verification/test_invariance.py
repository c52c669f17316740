"""Batch invariance is reported, with what breaks it; it is no fault by itself."""

from __future__ import annotations

import torch

from graphs.batch import DecodeBatch
from graphs.capture import StepFn
from graphs.report import VerificationReport
from graphs.report_parts import RowChange
from graphs.verification import verify
from graphs.verification.invariance import compare_rows
from tests.graphs.harness import make_rig
from tests.graphs.recording_device import RecordingDeviceApi


def report_of(extra: object) -> VerificationReport:
    """Of a step that adds `extra(batch, logits)`, [rows, 1] or [rows, vocab]."""

    def wrap(step: StepFn) -> StepFn:
        def wrapped(batch: DecodeBatch) -> torch.Tensor:
            logits = step(batch)
            return logits + extra(batch, logits)  # type: ignore[operator]

        return wrapped

    rig = make_rig(RecordingDeviceApi(), sizes=[2, 5], wrap_step=wrap, num_blocks=40)
    return verify(rig.runner, rig.model.state, rounds=1, depth="off", invariance=True)


def changes(report: VerificationReport) -> dict[str, RowChange]:
    return {change.change: change for change in report.invariance[-1].changes}


def test_a_row_that_depends_on_its_place() -> None:
    report = report_of(lambda batch, logits: torch.arange(len(logits))[:, None].float())
    assert report.passed, "a property, not a fault"
    found = changes(report)
    assert found["another place"].differing >= 2 and found["another place"].max_abs_diff >= 1
    assert not found["shorter neighbours"].differing
    assert not report.invariance[-1].invariant
    assert "another place changes" in str(report.invariance[-1])


def test_a_row_that_depends_on_its_neighbours_lengths() -> None:
    found = changes(report_of(lambda batch, logits: 1e-2 * batch.seq_lens.max().float()))
    assert found["shorter neighbours"].differing in (0, 1) and not found["another place"].differing
    mean = changes(report_of(lambda batch, logits: 1e-2 * batch.seq_lens.float().mean()))
    assert mean["shorter neighbours"].differing == 1


def test_a_row_that_depends_on_the_bucket() -> None:
    found = changes(report_of(lambda batch, logits: torch.full((1, 1), float(len(logits)))))
    assert set(found) == {"another place", "shorter neighbours", "bucket 2"}
    assert found["bucket 2"].differing == found["bucket 2"].rows == 2
    assert not found["another place"].differing


def test_rows_are_compared_bit_by_bit() -> None:
    a = torch.randn(4, 9, generator=torch.Generator().manual_seed(0))
    b = a.clone()
    b[2, 3] = b[2, 3].nextafter(torch.tensor(9.0))
    b[3] = b[3].roll(1)
    change = compare_rows("x", a, b)
    assert (change.rows, change.differing, change.other_choice) == (4, 2, 1)
    assert change.mismatch is not None and change.mismatch.index == (2, 3)
    assert compare_rows("x", a, a.clone()).mismatch is None
