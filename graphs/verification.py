"""Prove that replay equals eager, and that the proof would have noticed if it did not.

Eager runs on tensors made for each step from the scenario, replay through the runner under test;
they share the step function, the weights and the cache tensors. Both start from the same cache
content and both results are compared afterwards, because both write. Outputs are poisoned before
each replay, so a replay that does nothing is seen; blocks that no sequence owns are compared, so a
padding row that writes is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal

import torch

from graphs.batch import InputName
from graphs.compare import Tolerance
from graphs.errors import VerificationError
from graphs.judge import Judge
from graphs.kv_state import KvState, random_content
from graphs.proof_runs import ProofRuns, Run
from graphs.report import VerificationReport
from graphs.runner import DecodeGraphRunner
from graphs.scenarios import Geometry, Scenario, ScenarioMaker
from graphs.stats import RunnerStats

Depth = Literal["every-bucket", "smallest-bucket", "off"]
Progress = Callable[[int, int], None]

# Lengths before blocks: with stale lengths a replay may not get as far as the blocks.
MUTATION_ORDER: tuple[InputName, ...] = (
    "token_ids",
    "positions",
    "slot_mapping",
    "seq_lens",
    "block_table",
)


def verify(
    runner: DecodeGraphRunner,
    state: KvState,
    *,
    rounds: int = 3,
    seed: int = 0,
    max_context: int | None = None,
    depth: Depth = "every-bucket",
    tolerance: Tolerance | None = None,
    progress: Progress | None = None,
) -> VerificationReport:
    """Compare eager and replay for every bucket; returns the report, see `raise_for_findings`.

    Args:
        runner: after `capture()`. Its statistics do not count verification; its static buffers are
            left filled with the last scenario.
        state: the KV cache that the step writes.
            Overwritten, and given its content back at the end.
        rounds: fresh batches per bucket edge (the smallest batch of a bucket, one below full,
            full), each with new tokens, blocks, lengths and cache content.
        max_context: longest sequence made, in tokens; four blocks by default.
        depth: for which buckets, besides the rounds, each input is mutated in turn, other rows and
            unowned cache content are changed, and sequences are continued across a block border.
        tolerance: None compares bits;
            give one only for a step that declares itself non-deterministic.
        progress: called with (checks done, checks in all).

    Raises:
        VerificationError: AI-VERIFY-002 or -003 when verification cannot start.
    """
    _require_graphs(runner, rounds)
    session = _Session(runner, state, seed, max_context, tolerance)
    jobs = list(session.jobs(rounds, depth))
    saved, runner.stats = runner.stats, RunnerStats()
    try:
        with state.preserved():
            for done, job in enumerate(jobs, start=1):
                if not job():
                    break
                if progress is not None:
                    progress(done, len(jobs))
    finally:
        runner.stats = saved
    return session.judge.report(runner, seed, rounds, session.runs.proof())


class _Session:
    """One call of `verify`: scenario maker, runs and judge, and the checks as jobs.

    A job returns False when nothing after it can be meaningful.
    """

    def __init__(
        self,
        runner: DecodeGraphRunner,
        state: KvState,
        seed: int,
        max_context: int | None,
        tolerance: Tolerance | None,
    ) -> None:
        buffers = runner.buffers
        blocks = min(buffers.max_blocks, 4)
        geometry = Geometry(
            num_blocks=state.num_blocks,
            block_size=state.block_size,
            max_blocks=buffers.max_blocks,
            vocab_size=buffers.logits.shape[1],
            max_context=max_context or blocks * state.block_size,
        )
        geometry.blocks_per_row(runner.plan.largest)  # refuses a cache that is too small
        content = random_content(state, torch.Generator().manual_seed(seed))
        self._runner = runner
        self._maker = ScenarioMaker(geometry, content, seed)
        self.runs = ProofRuns(runner, state)
        self.judge = Judge(state.block_size, tolerance)

    def jobs(self, rounds: int, depth: Depth) -> Iterator[Callable[[], bool]]:
        plan, buckets = self._runner.plan, self._runner.captured_buckets
        missing = [bucket for bucket in plan.sizes if bucket not in buckets]
        self.judge.note_missing(missing, self._runner.failures)
        deep = {"every-bucket": buckets, "smallest-bucket": buckets[:1], "off": ()}[depth]
        for bucket in buckets:
            if bucket in deep:
                yield partial(self._deep, bucket)
            # Full first: its rows are what a padding row that is not reset would still hold.
            edges = dict.fromkeys((bucket, max(bucket - 1, 1), plan.smallest_batch(bucket)))
            sizes = [size for size in edges if plan.bucket_for(size) == bucket]
            for number in range(rounds):
                yield partial(self._round, number, bucket, sizes)

    def _round(self, number: int, bucket: int, sizes: list[int]) -> bool:
        return all(
            self._compare("round", number, bucket, self._maker.make(size)) is not None
            for size in sizes
        )

    def _deep(self, bucket: int) -> bool:
        base = self._maker.make(bucket)
        first = self._compare("base", 0, bucket, base)
        if first is None:
            return False
        eager, replay = first
        for name in MUTATION_ORDER:
            mutated = self._maker.mutate(base, name)
            if mutated is None:
                continue
            pair = self._compare(f"mutated {name}", 0, bucket, mutated)
            if pair is None:
                return False
            self.judge.mutation(name, bucket, base, (eager, pair[0]), (replay, pair[1]))
        return self._irrelevant_changes(bucket, base, replay) and self._border(bucket)

    def _irrelevant_changes(self, bucket: int, base: Scenario, replay: Run) -> bool:
        again = partial(self.runs.replay, base.content, [base.batch])
        variants = {"unowned cache content": (self._maker.unowned_content(base), base.size)}
        if base.size > 1:
            variants["the other rows"] = (self._maker.other_rows(base), 1)
        for what, (variant, rows) in variants.items():
            run = self.runs.replay(variant.content, [variant.batch])
            if run.error is not None:
                self.judge.failed_run(what, 0, bucket, base.size, run)
                return False
            self.judge.isolation(what, bucket, base, replay, run, rows, again)
        return True

    def _border(self, bucket: int) -> bool:
        """Two consecutive steps, the second of which starts a new block in every row."""
        scenario = self._maker.border_scenario(bucket)
        if scenario is None:
            return True
        return self._compare("block border", 0, bucket, scenario, steps=2) is not None

    def _compare(
        self, check: str, number: int, bucket: int, scenario: Scenario, steps: int = 1
    ) -> tuple[Run, Run] | None:
        batches = [scenario.batch]
        while len(batches) < steps:
            batches.append(self._maker.next_step(batches[-1]))
        eager = self.runs.eager(scenario.content, batches, bucket)
        replay = self.runs.replay(scenario.content, batches)
        if replay.error is not None:
            self.judge.failed_run(check, number, bucket, scenario.size, replay)
            return None
        agree = self.judge.compare(check, number, bucket, scenario, batches, eager, replay)
        if not agree:
            again = self.runs.eager(scenario.content, batches, bucket)
            self.judge.repeatability(check, number, bucket, scenario.size, eager, again)
        return eager, replay


def _require_graphs(runner: DecodeGraphRunner, rounds: int) -> None:
    if runner.captured_buckets and rounds >= 1:
        return
    raise VerificationError(
        "AI-VERIFY-003",
        f"{len(runner.captured_buckets)} captured graphs on {runner.api.device}, "
        f"{rounds} rounds asked",
        rule="verification replays captured graphs at least once",
        fix="call runner.capture() on npu or cuda first, and ask for at least one round",
    )
