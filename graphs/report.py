"""The result of a verification, as data that prints and goes to JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from graphs.compare import Mismatch, Tolerance, json_number
from graphs.errors import VerificationError
from graphs.report_parts import BucketInvariance, LayerVerdict, SoakFigures
from kernels_npu.evidence import Evidence

_MEASURED = {
    "cpu": Evidence.CPU_VERIFIED,
    "cuda": Evidence.GPU_MEASURED,
    "npu": Evidence.NPU_MEASURED,
}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One way in which replay did not do what eager does.

    code: a key of `kernels_npu.error_codes.CODES`. check: which part of the verification found it.
    round, bucket, batch_size: the step in question. layer: where the model's layers part, if asked.
    """

    code: str
    check: str
    message: str
    round: int
    bucket: int
    batch_size: int
    mismatch: Mismatch | None = None
    layer: LayerVerdict | None = None

    def __str__(self) -> str:
        where = f"round {self.round}, bucket {self.bucket}, batch {self.batch_size}"
        detail = "" if self.mismatch is None else f"\n    {self.mismatch}"
        detail += "" if self.layer is None else f"\n    {self.layer}"
        return f"{self.code} [{self.check}; {where}] {self.message}{detail}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "check": self.check,
            "message": self.message,
            "round": self.round,
            "bucket": self.bucket,
            "batch_size": self.batch_size,
            "mismatch": None if self.mismatch is None else self.mismatch.to_dict(),
            "layer": None if self.layer is None else self.layer.to_dict(),
        }


@dataclass(frozen=True, kw_only=True)
class ReplayProof:
    """Why we believe that replays ran.

    replays: replays asked of the runner. overwritten: replays that overwrote poisoned outputs.
    device_replays, device_launches: the device's own counts over the same steps;
        None if it keeps none.
    allocations: blocks of device memory handed out during them; None if nobody counts.
    """

    replays: int
    overwritten: int
    device_replays: int | None
    device_launches: int | None
    allocations: int | None = None

    def to_dict(self) -> dict[str, int | None]:
        return {
            "replays": self.replays,
            "overwritten": self.overwritten,
            "device_replays": self.device_replays,
            "device_launches": self.device_launches,
            "allocations": self.allocations,
        }


@dataclass(frozen=True, kw_only=True)
class VerificationReport:
    """Eager against replay over all rounds.

    buckets: that were verified. comparisons: eager/replay pairs compared.
    checks: check -> how often it was made. notes: checks that could not be made, and why.
    invariance: per bucket, when asked for. soak: when asked for.
    bitwise_equal: all logits and all KV slots had the same bits in every comparison.
    max_abs_diff: the largest logit difference seen, 0.0 when bitwise equal.
    dead_inputs: inputs that change nothing even in eager,
        so that nobody can tell if replay reads them.
    findings: what is wrong, the most telling first; empty when verification passed.
    """

    device: str
    simulated: bool
    seed: int
    rounds: int
    buckets: tuple[int, ...]
    comparisons: int
    bitwise_equal: bool
    max_abs_diff: float
    tolerance: Tolerance | None
    dead_inputs: tuple[str, ...]
    proof: ReplayProof
    findings: tuple[Finding, ...]
    checks: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    invariance: tuple[BucketInvariance, ...] = ()
    soak: SoakFigures | None = None

    @property
    def passed(self) -> bool:
        return not self.findings

    @property
    def evidence(self) -> Evidence:
        """How every figure of this report came to be known."""
        return Evidence.SIMULATED if self.simulated else _MEASURED[self.device.partition(":")[0]]

    @property
    def first_mismatch(self) -> Mismatch | None:
        """The differing value of the most telling finding that has one."""
        return next((f.mismatch for f in self.findings if f.mismatch is not None), None)

    def raise_for_findings(self) -> None:
        """Do nothing when verification passed.

        Raises:
            VerificationError: with the code of the first finding and the whole report.
        """
        if self.passed:
            return
        shown = "\n  ".join(str(finding) for finding in self.findings[:4])
        more = len(self.findings) - 4
        raise VerificationError(
            self.findings[0].code,
            f"replay is not proved equal to eager on {self.device}:\n  {shown}"
            + (f"\n  and {more} more" if more > 0 else ""),
            rule="for every bucket and every input a replay gives what eager gives",
            fix=f"start with the first finding; seed {self.seed} repeats it",
            report=self,
        )

    def to_dict(self) -> dict[str, Any]:
        tolerance = self.tolerance
        return {
            "passed": self.passed,
            "device": self.device,
            "simulated": self.simulated,
            "evidence": str(self.evidence),
            "seed": self.seed,
            "rounds": self.rounds,
            "buckets": list(self.buckets),
            "comparisons": self.comparisons,
            "bitwise_equal": self.bitwise_equal,
            "max_abs_diff": json_number(self.max_abs_diff),
            "tolerance": None
            if tolerance is None
            else {"atol": tolerance.atol, "rtol": tolerance.rtol, "reason": tolerance.reason},
            "dead_inputs": list(self.dead_inputs),
            "proof": self.proof.to_dict(),
            "checks": dict(self.checks),
            "notes": list(self.notes),
            "invariance": [bucket.to_dict() for bucket in self.invariance],
            "soak": None if self.soak is None else self.soak.to_dict(),
            "first_mismatch": None
            if self.first_mismatch is None
            else self.first_mismatch.to_dict(),
            "findings": [finding.to_dict() for finding in self.findings],
        }
