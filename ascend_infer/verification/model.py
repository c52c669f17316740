"""A whole model: steps against transformers, a batch against its rows, eager against replay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ascend_infer.devices import Device
from ascend_infer.engine import Generation, Request, check_request
from ascend_infer.generation import running, verify_replay
from ascend_infer.model.weights import WeightSource
from ascend_infer.progress import Reporter, Silent
from ascend_infer.reference import require_reference
from ascend_infer.reference_check import check_against_reference
from ascend_infer.session import Session, SessionOptions, open_session
from ascend_infer.simulation import SimulationOptions
from ascend_infer.verification.result import CheckReport, CheckResult
from kernels_npu.errors import AscendInferError


def verify_model(
    source: WeightSource,
    device: Device,
    options: SessionOptions,
    prompts: Sequence[Sequence[int]],
    *,
    steps: int,
    rounds: int,
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
        replay = verify_replay(session, rounds=rounds, every_bucket=True, report=report)
    report.stage("compare with transformers")
    level = device.evidence
    results = [
        _against_reference(session, together),
        _batch_against_alone(together, alone, device),
    ]
    notes = []
    if replay is None:
        notes.append("eager vs replay: no graphs on this device")
    else:
        results.append(
            CheckResult(
                subject="model",
                check="eager vs replay",
                passed=replay.passed,
                detail="\n".join(map(str, replay.findings))
                or f"bitwise equal in {replay.comparisons} comparisons, buckets "
                f"{', '.join(map(str, replay.buckets))}",
                evidence=level,
                values=replay.to_dict(),
            )
        )
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
    together: Sequence[Generation], alone: Sequence[Generation], device: Device
) -> CheckResult:
    """Whether every sequence got the same tokens in the batch as on its own."""
    differing = [
        row
        for row, (a, b) in enumerate(zip(together, alone))
        if a.output_token_ids != b.output_token_ids
    ]
    return CheckResult(
        subject="model",
        check="batch vs alone",
        passed=not differing,
        detail=f"rows {differing} got other tokens in the batch"
        if differing
        else f"{len(together)} sequences got the same tokens in a batch as alone",
        evidence=device.evidence,
        values={"sequences": len(together), "differing_rows": differing},
    )
