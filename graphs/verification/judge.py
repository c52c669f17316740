"""Turns pairs of runs into findings: which rule is broken, where, and what that usually means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from graphs.batch import DecodeBatch, InputName
from graphs.compare import Mismatch, Tolerance, bit_equal, find_mismatch, max_abs_diff
from graphs.kv_state import first_difference
from graphs.report_parts import LayerVerdict
from graphs.verification import evidence
from graphs.verification.findings import Findings, Where
from graphs.verification.proof_runs import Run
from graphs.verification.scenarios import Scenario

# Asked once, for the first disagreement: which layer differs?
Locate = Callable[[], LayerVerdict | None]


class Judge:
    """Compares runs, counts comparisons, collects findings.

    Attributes:
        findings: what is wrong. checks: check -> how often it was made. dead: inputs that were
            mutated and changed nothing in eager. comparisons, bitwise_equal, max_abs_diff: of all
            eager/replay pairs.
    """

    def __init__(self, block_size: int, tolerance: Tolerance | None) -> None:
        self.findings = Findings()
        self.checks: Counter[str] = Counter()
        self.tolerance = tolerance
        self.comparisons = 0
        self.bitwise_equal = True
        self.max_abs_diff = 0.0
        self._block_size = block_size
        self._live: set[str] = set()
        self._stale: set[tuple[str, int]] = set()
        self._mutated: dict[str, None] = {}
        self._located = False

    @property
    def dead(self) -> tuple[str, ...]:
        return tuple(name for name in self._mutated if name not in self._live)

    def compare(
        self,
        where: Where,
        scenario: Scenario,
        batches: Sequence[DecodeBatch],
        eager: Run,
        replay: Run,
        locate: Locate,
    ) -> bool:
        """Logits, cache and evidence of a replay against eager; False when values differ."""
        self.checks[where.check] += 1
        self.comparisons += 1
        evidence.check(self.findings, where, len(batches), replay)
        evidence.random_numbers(self.findings, where, eager, replay)
        if evidence.did_nothing(self.findings, where, scenario, replay, self._block_size):
            self.bitwise_equal = False
            return True
        self.stray_writes(where, scenario, batches, replay, "replay")
        self.stray_writes(where, scenario, batches, eager, "eager")
        agree = True
        for step, (expected, actual) in enumerate(zip(eager.logits, replay.logits)):
            self.bitwise_equal &= bit_equal(expected, actual)
            self.max_abs_diff = max(self.max_abs_diff, max_abs_diff(expected, actual))
            name = "logits" if len(batches) == 1 else f"logits of step {step}"
            mismatch = find_mismatch(name, expected, actual, self.tolerance)
            if mismatch is not None:
                agree = False
                self._differs("AI-VERIFY-007", "other logits than eager", where, mismatch, locate)
                break
        self.bitwise_equal &= first_difference(eager.cache, replay.cache) is None
        mismatch = first_difference(eager.cache, replay.cache, self.tolerance)
        if mismatch is not None:
            agree = False
            self._differs("AI-VERIFY-008", "another KV cache than eager", where, mismatch, locate)
        return agree

    def _differs(
        self, code: str, what: str, where: Where, mismatch: Mismatch, locate: Locate
    ) -> None:
        layer = None if self._located else locate()
        self._located = True
        self.findings.add(code, where, f"replay computes {what}", mismatch, layer)

    def stray_writes(
        self,
        where: Where,
        scenario: Scenario,
        batches: Sequence[DecodeBatch],
        run: Run,
        who: str,
    ) -> None:
        """KV slots that `run` wrote and no slot_mapping names."""
        evidence.stray_writes(self.findings, where, scenario, batches, run, who, self._block_size)

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
        if not differ(*eager):
            return
        self._live.add(name)
        if differ(*replay):
            return
        if name == "block_table" and ("seq_lens", bucket) in self._stale:
            return  # a consequence: blocks that stale lengths do not reach are not read
        self._stale.add((name, bucket))
        self.findings.add(
            "AI-VERIFY-005",
            Where(check=f"mutated {name}", bucket=bucket, batch_size=base.size),
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
        where = Where(check=f"changed {what}", bucket=bucket, batch_size=base.size)
        self.checks[where.check] += 1
        mismatch = find_mismatch(
            "logits", before.logits[0][:rows], after.logits[0][:rows], self.tolerance
        )
        if mismatch is None:
            return
        if differ(before, again()):
            self.findings.add(
                "AI-VERIFY-010",
                where,
                "replay gives different bits when it is repeated with the same inputs",
                mismatch,
            )
            return
        self.findings.add(
            "AI-VERIFY-009",
            where,
            f"a row's logits change when only {what} changed: it reads what it does not own",
            mismatch,
        )

    def same_again(
        self,
        code: str,
        where: Where,
        message: str,
        first: Run,
        later: Run,
        repeat: Callable[[], tuple[Run, Run]],
    ) -> None:
        """Two replays of the same steps must agree.

        `repeat` runs them twice alike, to tell what is wrong from what is not deterministic.
        """
        self.checks[where.check] += 1
        mismatch = next(
            (
                m
                for a, b in zip(first.logits, later.logits)
                if (m := find_mismatch("logits", a, b, self.tolerance)) is not None
            ),
            first_difference(first.cache, later.cache, self.tolerance),
        )
        if mismatch is None:
            return
        if differ(*repeat()):
            code = "AI-VERIFY-010"
            message = "replay gives different bits when it is repeated with the same inputs"
        self.findings.add(code, where, message, mismatch)

    def repeatability(self, where: Where, first: Run, second: Run) -> None:
        """After a disagreement: if eager disagrees with itself too, say so."""
        if differ(first, second):
            self.findings.add(
                "AI-VERIFY-010",
                where,
                "eager gives different bits when it is repeated with the same inputs: the step is "
                "not deterministic, declare a tolerance with its reason",
            )

    def failed_run(self, where: Where, run: Run) -> None:
        """A replay raised: its own code and text become the finding."""
        error = run.error
        if error is not None:
            self.bitwise_equal = False
            self.findings.add(error.code, where, error.what)


def differ(a: Run, b: Run) -> bool:
    """Whether two runs left other bits in logits or cache."""
    return first_difference(a.cache, b.cache) is not None or not all(
        bit_equal(x, y) for x, y in zip(a.logits, b.logits)
    )
