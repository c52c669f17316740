"""A whole model: steps against transformers, a batch against its rows, eager against replay."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ascend_infer.devices import Device
from ascend_infer.engine import Generation, Request, check_request
from ascend_infer.generation import running
from ascend_infer.model.weights import WeightSource
from ascend_infer.progress import Reporter, Silent
from ascend_infer.reference import require_reference
from ascend_infer.reference_check import check_against_reference, logit_tolerance
from ascend_infer.session import Session, SessionOptions, open_session
from ascend_infer.simulation import SimulationOptions
from ascend_infer.verification.replay import ReplayOptions, replay_results
from ascend_infer.verification.result import CheckReport, CheckResult
from graphs.compare import json_number
from kernels_npu.errors import AscendInferError


def verify_model(
    source: WeightSource,
    device: Device,
    options: SessionOptions,
    prompts: Sequence[Sequence[int]],
    *,
    steps: int,
    replay: ReplayOptions,
    simulation: SimulationOptions,
    reporter: Reporter | None = None,
) -> CheckReport:
    """Decode `steps` steps of `prompts` (token ids) as one batch and check everything about it."""
    report = reporter or Silent()
    require_reference(source)
    options.require_room_to_verify()
    requests = [
        # One more token than decode steps: prefill chooses the first.
        Request(prompt_token_ids=tuple(prompt), max_new_tokens=steps + 1, ignore_eos=True)
        for prompt in prompts
    ]
    for request in requests:
        check_request(request, source.config)
    report.stage("load weights")
    session = open_session(source, device, options)
    with running(device.name, strict=options.strict, simulation=simulation):
        report.stage("capture graphs")
        session.runner.capture()
        together = _decode(session, requests, report)
        alone = [_decode(session, [request], report)[0] for request in requests]
        checked, notes = replay_results(session, "model", replay, report)
    report.stage("compare with transformers")
    reference = _against_reference(session, together)
    limit = reference.values.get("row_rms_limit", math.inf)
    results = [reference, _batch_against_alone(together, alone, session, limit), *checked]
    return CheckReport(
        scope="model", device=device.name, results=tuple(results), notes=tuple(notes)
    )


def _against_reference(session: Session, generations: Sequence[Generation]) -> CheckResult:
    """The comparison with transformers; when it cannot be made, only this check has failed."""
    values: dict[str, Any]
    try:
        report = check_against_reference(
            session.source, generations, session.model.dtype, isolated=True
        )
    except AscendInferError as error:
        passed, detail, values = False, str(error), {"error": error.to_dict()}
    else:
        passed, values = report.passed, report.to_dict()
        detail = (
            f"top-1 equal in {report.top1_agreement:.1%} of {report.steps} steps, in "
            f"{report.decided.agreements} of {report.decided.rows} with a gap above "
            f"{report.tolerance:.3g}; worst logit difference {report.max_abs_logit_diff:.4g}, "
            f"in prefill {report.prefill_max_abs_logit_diff:.4g}"
        )
    return CheckResult(
        subject="model",
        check="transformers in float32",
        passed=passed,
        detail=detail,
        evidence=session.device.evidence,
        values=values,
    )


def _decode(session: Session, requests: Sequence[Request], report: Reporter) -> list[Generation]:
    report.stage(
        f"decode {len(requests)} sequence(s)", total=sum(r.max_new_tokens for r in requests)
    )
    return session.engine.generate(
        requests, keep_logits=True, on_token=lambda _key, _token: report.step()
    )


def _batch_against_alone(
    together: Sequence[Generation], alone: Sequence[Generation], session: Session, limit: float
) -> CheckResult:
    """Whether every sequence got the same tokens in the batch as on its own, and close logits.

    limit: how far a row of logits may be from the reference's (root mean square); two correct
        computations are no further from each other.
    """
    worst = max(map(distance, together, alone))
    splits = [
        Split(row=row, step=step, gap=gap, tolerance=tolerance)
        for row, (a, b) in enumerate(zip(together, alone, strict=True))
        if (found := first_split(a, b, session)) is not None
        for step, gap, tolerance in (found,)
    ]
    ties = [split for split in splits if split.is_tie]
    faults = [split for split in splits if not split.is_tie]
    detail = (
        f"{len(together) - len(splits)} of {len(together)} sequences got the same tokens, "
        f"worst row of logits off by {worst:.3g} (rms), limit {limit:.3g}"
    )
    if ties:
        detail += f"; too close to call: {', '.join(map(str, ties))}"
    if faults:
        detail += f"; other tokens in the batch: {', '.join(map(str, faults))}"
    return CheckResult(
        subject="model",
        check="batch vs alone",
        passed=not faults and worst <= limit,
        detail=detail,
        evidence=session.device.evidence,
        values={
            "sequences": len(together),
            "worst_row_rms_diff": worst,
            "row_rms_limit": json_number(limit),
            "differing_rows": [split.row for split in faults],
            "near_ties": [vars(split) for split in ties],
        },
    )


@dataclass(frozen=True, kw_only=True)
class Split:
    """Where the tokens of one sequence part in the batch and alone; all contexts differ after it.

    gap: by how much the sequence alone prefers its own token to the batch's, in logits.
    tolerance: how far rounding moves such a gap.
    """

    row: int
    step: int
    gap: float
    tolerance: float

    @property
    def is_tie(self) -> bool:
        """Whether rounding explains the other token."""
        return self.gap <= self.tolerance

    def __str__(self) -> str:
        return f"row {self.row} at step {self.step} (gap {self.gap:.3g} of {self.tolerance:.3g})"


def distance(together: Generation, alone: Generation) -> float:
    """Largest root mean square difference of two rows of logits that had the same context."""
    assert together.logits is not None
    assert alone.logits is not None
    pairs = zip(together.output_token_ids, alone.output_token_ids, strict=True)
    split = next((i for i, (a, b) in enumerate(pairs) if a != b), len(alone.logits) - 1)
    difference = (together.logits[: split + 1] - alone.logits[: split + 1]).float()
    return float(difference.square().mean(dim=-1).sqrt().nan_to_num(nan=math.inf).max())


def first_split(
    together: Generation, alone: Generation, session: Session
) -> tuple[int, float, float] | None:
    """Step, gap and tolerance where two generations of one prompt part; None if they do not."""
    pairs = zip(together.output_token_ids, alone.output_token_ids, strict=True)
    step = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
    if step is None:
        return None
    assert alone.logits is not None
    logits = alone.logits[step].float()
    theirs, ours = together.output_token_ids[step], alone.output_token_ids[step]
    gap = float(logits[ours] - logits[theirs])
    return step, gap, logit_tolerance(logits, session.model.dtype, session.model.num_layers)
