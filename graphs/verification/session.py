"""`verify`: all checks of one runner as a list of jobs, and the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Literal

from graphs.compare import Tolerance
from graphs.errors import VerificationError
from graphs.kv_state import KvState
from graphs.report import VerificationReport
from graphs.report_parts import BucketInvariance, SoakFigures
from graphs.runner import DecodeGraphRunner
from graphs.stats import RunnerStats
from graphs.verification import evidence, inputs, order, rounds
from graphs.verification.invariance import row_invariance
from graphs.verification.judge import Judge
from graphs.verification.layers import LayeredStep
from graphs.verification.proof_runs import ProofRuns
from graphs.verification.scenarios import ScenarioMaker
from graphs.verification.soak import soak as run_soak
from graphs.verification.workbench import Workbench

Depth = Literal["every-bucket", "smallest-bucket", "off"]
Progress = Callable[[int, int], None]
Job = Callable[[], bool]


def verify(
    runner: DecodeGraphRunner,
    state: KvState,
    *,
    rounds: int = 3,
    seed: int = 0,
    max_context: int | None = None,
    depth: Depth = "every-bucket",
    invariance: bool = False,
    soak: int = 0,
    layers: LayeredStep | None = None,
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
        depth: for which buckets, besides the rounds, each input is mutated in turn, other rows,
            padding rows and foreign cache content are changed, and sequences are continued across a
            block border. Unless it is "off", graphs are also replayed in turns (A/B/A) and steps
            are enqueued without waiting; for "every-bucket", a batch beyond the largest is tried.
        invariance: also report per bucket whether rows depend on the batch they are in.
        soak: replays of the same steps, for drift and leaks; 1000 is plenty, 0 leaves it out.
        layers: the step by layers, so that the first difference can be located in one.
        tolerance: None compares bits;
            give one only for a step that declares itself non-deterministic.
        progress: called with (checks done, checks in all).

    Raises:
        VerificationError: AI-VERIFY-002 or -003 when verification cannot start.
    """
    _require_graphs(runner, rounds)
    maker = ScenarioMaker.for_runner(runner, state, seed, max_context)
    bench = Workbench(
        runner=runner,
        state=state,
        geometry=maker.geometry,
        maker=maker,
        runs=ProofRuns(runner, state),
        judge=Judge(state.block_size, tolerance),
        layers=layers,
        notes=[],
    )
    reports: list[BucketInvariance] = []
    figures: list[SoakFigures] = []
    jobs = list(_jobs(bench, rounds, depth))
    if invariance:
        jobs += [partial(_invariance, bench, b, reports) for b in runner.captured_buckets]
    if soak and runner.captured_buckets:
        jobs.append(partial(_soak, bench, soak, figures))
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
    judge = bench.judge
    return VerificationReport(
        device=str(runner.api.device),
        simulated=runner.api.simulated,
        seed=seed,
        rounds=rounds,
        buckets=runner.captured_buckets,
        comparisons=judge.comparisons,
        bitwise_equal=judge.bitwise_equal,
        max_abs_diff=judge.max_abs_diff,
        tolerance=tolerance,
        dead_inputs=judge.dead,
        proof=bench.runs.proof(),
        findings=judge.findings.ranked(),
        checks=dict(judge.checks),
        notes=tuple(dict.fromkeys(bench.notes)),
        invariance=tuple(reports),
        soak=figures[0] if figures else None,
    )


def _jobs(bench: Workbench, number_of_rounds: int, depth: Depth) -> Iterator[Job]:
    """The checks in order. A job returns False when nothing after it can be meaningful."""
    runner = bench.runner
    plan, buckets = runner.plan, runner.captured_buckets
    missing = [bucket for bucket in plan.sizes if bucket not in buckets]
    evidence.missing(bench.judge.findings, missing, runner.failures)
    deep = {"every-bucket": buckets, "smallest-bucket": buckets[:1], "off": ()}[depth]
    if not buckets:
        return
    for bucket in buckets:
        if bucket in deep:
            yield partial(inputs.dependence, bench, bucket)
            yield partial(rounds.block_border, bench, bucket)
        for number in range(number_of_rounds):
            yield partial(rounds.edges, bench, number, bucket)
    if depth == "off":
        return
    for small, large in pairwise(buckets):
        yield partial(order.interleaved, bench, small, large)
    yield partial(order.in_flight, bench)
    if depth == "every-bucket":
        yield partial(rounds.beyond_largest, bench)


def _invariance(bench: Workbench, bucket: int, reports: list[BucketInvariance]) -> bool:
    report = row_invariance(bench, bucket)
    if report is not None:
        reports.append(report)
    return report is not None


def _soak(bench: Workbench, replays: int, figures: list[SoakFigures]) -> bool:
    result = run_soak(bench, replays)
    if result is not None:
        figures.append(result)
    return result is not None


def _require_graphs(runner: DecodeGraphRunner, rounds: int) -> None:
    # Captures that failed are findings with their reasons; without a capture there is nothing.
    if (runner.captured_buckets or runner.failures) and rounds >= 1:
        return
    raise VerificationError(
        "AI-VERIFY-003",
        f"{len(runner.captured_buckets)} captured graphs on {runner.api.device}, "
        f"{rounds} rounds asked",
        rule="verification replays captured graphs at least once",
        fix="call runner.capture() on npu or cuda first, and ask for at least one round",
    )
