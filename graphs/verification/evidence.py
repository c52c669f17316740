"""What a replay shows about itself: that it ran, as which bucket, what it wrote and allocated."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from graphs.batch import DecodeBatch
from graphs.kv_state import written_slots
from graphs.verification.findings import Findings, Where
from graphs.verification.proof_runs import Run
from graphs.verification.scenarios import Scenario

_ROOT = Path(__file__).resolve().parents[2]
#: Frames of these are not the user's: PyTorch and this package's capture machinery.
_LIBRARIES = (torch.__path__[0], str(_ROOT / "graphs"), str(_ROOT / "kernels_npu"), "<")


def check(findings: Findings, where: Where, steps: int, replay: Run) -> None:
    """The steps were replayed, by the graph of the right bucket, into the static output."""
    if replay.eager_steps:
        findings.add(
            "AI-VERIFY-011",
            where,
            f"{replay.eager_steps} of {steps} steps left the graph and ran eagerly",
        )
        return
    if replay.device_replays is not None and (
        replay.device_replays < steps or replay.device_launches == 0
    ):
        findings.add(
            "AI-VERIFY-012",
            where,
            f"{steps} steps were to be replayed; the device counted {replay.device_replays} "
            f"replays with {_number(replay.device_launches)} launches",
        )
    if replay.elsewhere:
        findings.add_once(
            "AI-VERIFY-014",
            where,
            f"the results of {replay.elsewhere} of {steps} steps lie outside the static logits: "
            "run() returns memory that the graph does not hold",
        )
    if replay.allocations:
        findings.add_once(
            "AI-VERIFY-014",
            where,
            f"{steps} steps allocated {replay.allocations} blocks of device memory: a replay "
            "writes into static buffers and allocates nothing",
        )
    _bucket(findings, where, replay)


def _number(count: int | None) -> str:
    return "an unknown number of" if count is None else str(count)


def _bucket(findings: Findings, where: Where, replay: Run) -> None:
    """A graph writes exactly the rows of its bucket, whatever the runner says it replayed."""
    for rows in replay.written:
        if rows and not replay.elsewhere and rows != tuple(range(where.bucket)):
            findings.add_once(
                "AI-VERIFY-013",
                where,
                f"a batch of {where.batch_size} rows belongs to bucket {where.bucket}, the graph "
                f"that ran wrote {len(rows)} rows of the static logits ({rows[0]} to {rows[-1]})",
            )
            return


def random_numbers(findings: Findings, where: Where, eager: Run, replay: Run) -> None:
    """A step that draws gives other results every time: nothing about it can be proved bitwise."""
    drew = sorted({*eager.drew, *replay.drew})
    if drew:
        who = "eager" if not replay.drew else "replay" if not eager.drew else "eager and replay"
        findings.add_once(
            "AI-VERIFY-015",
            where,
            f"the random generator of {' and '.join(drew)} moved on during {who}: the step draws "
            "random numbers; sample outside the captured step",
        )


def did_nothing(
    findings: Findings, where: Where, scenario: Scenario, replay: Run, block_size: int
) -> bool:
    """Whether a replay left its whole output poisoned."""
    for logits, untouched in zip(replay.logits, replay.untouched):
        if untouched == logits.numel():
            writes = written_slots(scenario.content, replay.cache, block_size)
            findings.add(
                "AI-VERIFY-004",
                where,
                f"replay left all {untouched} logits as they were poisoned and wrote "
                f"{len(writes)} KV slots: it did nothing, or it writes elsewhere",
            )
            return True
    return False


def stray_writes(
    findings: Findings,
    where: Where,
    scenario: Scenario,
    batches: Sequence[DecodeBatch],
    run: Run,
    who: str,
    block_size: int,
) -> None:
    """KV slots that a run wrote and no slot_mapping of its batches names."""
    allowed = {int(s) for batch in batches for s in batch.slot_mapping if s >= 0}
    stray = sorted(written_slots(scenario.content, run.cache, block_size) - allowed)
    if stray:
        block = stray[0] // block_size
        owner = "a sequence owns" if block in scenario.owned_blocks else "no sequence owns"
        findings.add(
            "AI-VERIFY-006",
            where,
            f"{who} wrote {len(stray)} KV slots that slot_mapping does not name, the first is "
            f"{stray[0]} in block {block}, which {owner}: a padding row must carry slot -1",
        )


def missing(
    findings: Findings, buckets: Sequence[int], failures: Mapping[int, BaseException]
) -> None:
    """Buckets of the plan that have no graph cannot be proved."""
    for bucket in buckets:
        error = failures.get(bucket)
        detail = "it was not captured"
        if error is not None:
            detail = f"its capture failed: {error}{_user_line(error)}"
        findings.add(
            "AI-VERIFY-011",
            Where(check="captured buckets", bucket=bucket, batch_size=bucket),
            f"bucket {bucket} has no graph, {detail}",
        )


def _user_line(error: BaseException) -> str:
    """` (at file:line)` of the innermost frame that is the user's, or nothing."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not f.filename.startswith(_LIBRARIES)]
    return f" (at {own[-1].filename}:{own[-1].lineno})" if own else ""
