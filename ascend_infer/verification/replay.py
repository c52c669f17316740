"""Eager against replay of a session, as results of `ascend-infer verify block` and `model`."""

from __future__ import annotations

from dataclasses import dataclass

from ascend_infer.generation import verify_replay
from ascend_infer.progress import Reporter
from ascend_infer.session import Session
from ascend_infer.verification.result import CheckResult
from graphs.report import VerificationReport


@dataclass(frozen=True, kw_only=True)
class ReplayOptions:
    """rounds: per bucket edge. invariance: report whether rows depend on their batch.
    soak: replays of the same steps, for drift and leaks; 0 for none."""

    rounds: int = 3
    invariance: bool = False
    soak: int = 0


def replay_results(
    session: Session, subject: str, options: ReplayOptions, report: Reporter
) -> tuple[list[CheckResult], list[str]]:
    """The results, and notes on what could not be checked."""
    replay = verify_replay(
        session,
        rounds=options.rounds,
        every_bucket=True,
        report=report,
        invariance=options.invariance,
        soak=options.soak,
    )
    if replay is None:
        return [], ["eager vs replay: no graphs on this device"]
    evidence = session.device.evidence
    results = [
        CheckResult(
            subject=subject,
            check="eager vs replay",
            passed=replay.passed,
            detail="\n".join(map(str, replay.findings)) or _summary(replay),
            evidence=evidence,
            values=replay.to_dict(),
        )
    ]
    if replay.invariance:
        results.append(
            CheckResult(
                subject=subject,
                check="batch invariance",
                passed=True,  # a property that is reported, neither right nor wrong
                detail=_invariance(replay),
                evidence=evidence,
                values={"invariant": all(bucket.invariant for bucket in replay.invariance)},
            )
        )
    if replay.soak is not None:
        faults = [f for f in replay.findings if f.check == "soak"]
        results.append(
            CheckResult(
                subject=subject,
                check="soak",
                passed=not faults,
                detail=str(replay.soak),
                evidence=evidence,
                values=replay.soak.to_dict(),
            )
        )
    return results, list(replay.notes)


def _summary(replay: VerificationReport) -> str:
    """What was proved, and by what: every claim with its evidence."""
    proof = replay.proof
    agree = "bitwise equal" if replay.bitwise_equal else "equal within the tolerance"
    lines = [
        f"{agree} in {replay.comparisons} comparisons, buckets "
        f"{', '.join(map(str, replay.buckets))}",
        f"{proof.overwritten} of {proof.replays} replays overwrote a poisoned output",
    ]
    if proof.device_replays is not None:
        lines[1] += f"; the device counted {proof.device_replays}"
    if proof.device_launches is not None:
        lines[1] += f" with {proof.device_launches} launches"
    if proof.allocations is not None:
        lines.append(f"{proof.allocations} blocks allocated by them")
    if replay.dead_inputs:
        lines.append(f"not read even by eager: {', '.join(replay.dead_inputs)}")
    return "; ".join(lines)


def _invariance(replay: VerificationReport) -> str:
    broken = [str(bucket) for bucket in replay.invariance if not bucket.invariant]
    kept = [str(bucket.bucket) for bucket in replay.invariance if bucket.invariant]
    if kept:
        broken.append(f"rows keep their bits in buckets {', '.join(kept)}")
    return "; ".join(broken)
