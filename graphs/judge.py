"""Turns pairs of runs into findings: which rule is broken, where, and what that usually means."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from graphs.batch import DecodeBatch, InputName
from graphs.compare import Mismatch, Tolerance, bit_equal, find_mismatch, max_abs_diff
from graphs.kv_state import first_difference, written_slots
from graphs.proof_runs import Run
from graphs.report import Finding, ReplayProof, VerificationReport
from graphs.runner import DecodeGraphRunner
from graphs.scenarios import Scenario

# Most telling first: a replay that does nothing also differs from eager, and should not be
# reported as "differs". Codes that are not listed come in between, in the order found.
_TELLING = ("AI-GRAPH-006", "AI-VERIFY-004", "AI-VERIFY-012", "AI-VERIFY-005", "AI-VERIFY-006")
_GENERAL = ("AI-VERIFY-007", "AI-VERIFY-008")


class Judge:
    """Collects findings of one verification."""

    def __init__(self, block_size: int, tolerance: Tolerance | None) -> None:
        self._block_size = block_size
        self._tolerance = tolerance
        self._findings: list[Finding] = []
        self._live: set[str] = set()
        self._stale: set[tuple[str, int]] = set()
        self._mutated: dict[str, None] = {}
        self._comparisons = 0
        self._bitwise = True
        self._max_abs_diff = 0.0

    def compare(
        self,
        check: str,
        number: int,
        bucket: int,
        scenario: Scenario,
        batches: Sequence[DecodeBatch],
        eager: Run,
        replay: Run,
    ) -> bool:
        """Logits, cache and evidence of a replay against eager; False when values differ."""
        at = (check, number, bucket, scenario.size)
        self._comparisons += 1
        self._evidence(at, len(batches), replay)
        if self._did_nothing(at, scenario, replay):
            self._bitwise = False
            return True
        allowed = {int(s) for batch in batches for s in batch.slot_mapping if s >= 0}
        self._stray_writes(at, scenario, allowed, replay, "replay")
        self._stray_writes(at, scenario, allowed, eager, "eager")
        agree = True
        for step, (expected, actual) in enumerate(zip(eager.logits, replay.logits)):
            self._bitwise &= bit_equal(expected, actual)
            self._max_abs_diff = max(self._max_abs_diff, max_abs_diff(expected, actual))
            name = "logits" if len(batches) == 1 else f"logits of step {step}"
            mismatch = find_mismatch(name, expected, actual, self._tolerance)
            if mismatch is not None:
                agree = False
                self._add("AI-VERIFY-007", at, "replay computes other logits than eager", mismatch)
                break
        self._bitwise &= first_difference(eager.cache, replay.cache) is None
        mismatch = first_difference(eager.cache, replay.cache, self._tolerance)
        if mismatch is not None:
            agree = False
            self._add("AI-VERIFY-008", at, "replay leaves another KV cache than eager", mismatch)
        return agree

    def mutation(
        self,
        name: InputName,
        bucket: int,
        base: Scenario,
        eager: tuple[Run, Run],
        replay: tuple[Run, Run],
    ) -> None:
        """`eager` and `replay` are (before, after) the input changed: both must react, or none."""
        self._mutated[name] = None
        if not _differ(*eager):
            return
        self._live.add(name)
        if _differ(*replay):
            return
        if name == "block_table" and ("seq_lens", bucket) in self._stale:
            return  # a consequence: blocks that stale lengths do not reach are not read
        self._stale.add((name, bucket))
        self._add(
            "AI-VERIFY-005",
            (f"mutated {name}", 0, bucket, base.size),
            f"replay ignores a changed {name}, eager does not: the static buffer of {name} is not "
            "refreshed between replays, or the graph was captured on another tensor",
        )

    def isolation(
        self,
        what: str,
        bucket: int,
        base: Scenario,
        before: Run,
        after: Run,
        rows: int,
        again: Callable[[], Run],
    ) -> None:
        """The first `rows` rows must not react to a change of `what`; `again` repeats `before`."""
        mismatch = find_mismatch(
            "logits", before.logits[0][:rows], after.logits[0][:rows], self._tolerance
        )
        if mismatch is None:
            return
        at = (f"changed {what}", 0, bucket, base.size)
        if _differ(before, again()):
            self._add(
                "AI-VERIFY-010",
                at,
                "replay gives different bits when it is repeated with the same inputs",
                mismatch,
            )
            return
        self._add(
            "AI-VERIFY-009",
            at,
            f"a row's logits change when only {what} changed: it reads what it does not own",
            mismatch,
        )

    def repeatability(
        self, check: str, number: int, bucket: int, size: int, first: Run, second: Run
    ) -> None:
        """After a disagreement: if eager disagrees with itself too, say so."""
        if _differ(first, second):
            self._add(
                "AI-VERIFY-010",
                (check, number, bucket, size),
                "eager gives different bits when it is repeated with the same inputs: the step is "
                "not deterministic, declare a tolerance with its reason",
            )

    def failed_run(self, check: str, number: int, bucket: int, size: int, run: Run) -> None:
        """A replay raised: its own code and text become the finding."""
        error = run.error
        if error is not None:
            self._bitwise = False
            self._add(error.code, (check, number, bucket, size), error.what)

    def note_missing(self, buckets: Sequence[int], failures: Mapping[int, BaseException]) -> None:
        """Buckets of the plan that have no graph cannot be proved."""
        for bucket in buckets:
            reason = failures.get(bucket)
            detail = "it was not captured" if reason is None else f"its capture failed: {reason}"
            self._add(
                "AI-VERIFY-011",
                ("captured buckets", 0, bucket, bucket),
                f"bucket {bucket} has no graph, {detail}",
            )

    def report(
        self, runner: DecodeGraphRunner, seed: int, rounds: int, proof: ReplayProof
    ) -> VerificationReport:
        return VerificationReport(
            device=str(runner.api.device),
            simulated=runner.api.simulated,
            seed=seed,
            rounds=rounds,
            buckets=runner.captured_buckets,
            comparisons=self._comparisons,
            bitwise_equal=self._bitwise,
            max_abs_diff=self._max_abs_diff,
            tolerance=self._tolerance,
            dead_inputs=tuple(name for name in self._mutated if name not in self._live),
            proof=proof,
            findings=tuple(sorted(self._findings, key=_rank)),
        )

    def _evidence(self, at: tuple[str, int, int, int], steps: int, replay: Run) -> None:
        if replay.eager_steps:
            self._add(
                "AI-VERIFY-011",
                at,
                f"{replay.eager_steps} of {steps} steps left the graph and ran eagerly",
            )
        elif replay.device_replays is not None and (
            replay.device_replays < steps or not replay.device_launches
        ):
            self._add(
                "AI-VERIFY-012",
                at,
                f"{steps} steps were to be replayed; the device counted {replay.device_replays} "
                f"replays with {replay.device_launches} launches",
            )

    def _did_nothing(self, at: tuple[str, int, int, int], scenario: Scenario, replay: Run) -> bool:
        for logits, untouched in zip(replay.logits, replay.untouched):
            if untouched == logits.numel():
                writes = written_slots(scenario.content, replay.cache, self._block_size)
                self._add(
                    "AI-VERIFY-004",
                    at,
                    f"replay left all {untouched} logits as they were poisoned and wrote "
                    f"{len(writes)} KV slots: it did nothing, or it writes elsewhere",
                )
                return True
        return False

    def _stray_writes(
        self,
        at: tuple[str, int, int, int],
        scenario: Scenario,
        allowed: set[int],
        run: Run,
        who: str,
    ) -> None:
        stray = sorted(written_slots(scenario.content, run.cache, self._block_size) - allowed)
        if stray:
            block = stray[0] // self._block_size
            owner = "a sequence owns" if block in scenario.owned_blocks else "no sequence owns"
            self._add(
                "AI-VERIFY-006",
                at,
                f"{who} wrote {len(stray)} KV slots that slot_mapping does not name, the first is "
                f"{stray[0]} in block {block}, which {owner}: a padding row must carry slot -1",
            )

    def _add(
        self,
        code: str,
        at: tuple[str, int, int, int],
        message: str,
        mismatch: Mismatch | None = None,
    ) -> None:
        check, number, bucket, size = at
        self._findings.append(
            Finding(
                code=code,
                check=check,
                message=message,
                round=number,
                bucket=bucket,
                batch_size=size,
                mismatch=mismatch,
            )
        )


def _differ(a: Run, b: Run) -> bool:
    return first_difference(a.cache, b.cache) is not None or not all(
        bit_equal(x, y) for x, y in zip(a.logits, b.logits)
    )


def _rank(finding: Finding) -> int:
    if finding.code in _TELLING:
        return _TELLING.index(finding.code)
    return len(_TELLING) + (finding.code in _GENERAL)
