"""Graphs and steps that follow each other: A/B/A, and steps enqueued without waiting."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import cycle, islice

from graphs.batch import DecodeBatch
from graphs.kv_state import Snapshot
from graphs.verification.findings import Where
from graphs.verification.proof_runs import Run
from graphs.verification.workbench import Workbench

#: Steps enqueued without waiting: the third uses the first of two staging slots again.
_IN_FLIGHT = 3


def interleaved(bench: Workbench, small: int, large: int) -> bool:
    """A, A, B, B, A, B: each graph gives after the other what it gives after itself.

    Graphs share one pool, so what one leaves there the other may read.
    """
    a, b = bench.maker.make(small), bench.maker.make(large)
    runs: list[Run] = []
    for scenario in (a, a, b, b, a, b):
        run = bench.replay(_where("A/B/A", scenario.size), scenario)
        if run is None:
            return False
        runs.append(run)
    for first, later, scenario, other in (
        (runs[1], runs[4], a, large),
        (runs[3], runs[5], b, small),
    ):
        bench.judge.same_again(
            "AI-VERIFY-016",
            _where("A/B/A", scenario.size),
            f"replay gives other values after bucket {other} was replayed: something that one "
            "graph writes is read by another without being set anew",
            first,
            later,
            partial(_settled, bench, scenario.content, [scenario.batch]),
        )
    return True


def in_flight(bench: Workbench) -> bool:
    """Steps of several buckets in a row, waiting for each and waiting for none."""
    buckets = bench.runner.captured_buckets
    sizes = list(islice(cycle(buckets[::-1]), _IN_FLIGHT))
    content = bench.maker.make(buckets[-1]).content
    batches = [bench.maker.make(size).batch for size in sizes]
    where = _where("steps in flight", buckets[-1])
    one_by_one = bench.runs.replay(content, batches)
    together = bench.runs.in_flight(content, batches)
    for run in (one_by_one, together):
        if run.error is not None:
            bench.judge.failed_run(where, run)
            return False
    bench.judge.same_again(
        "AI-VERIFY-019",
        where,
        f"{len(batches)} steps enqueued without waiting give other values than one by one: host "
        "buffers are overwritten while a copy from them is in flight, or a stream is not ordered "
        "after another",
        one_by_one,
        together,
        partial(_settled, bench, content, batches),
    )
    return True


def _settled(
    bench: Workbench, content: Snapshot, batches: Sequence[DecodeBatch]
) -> tuple[Run, Run]:
    """The same steps twice, after they ran before: nothing else in between."""
    bench.runs.replay(content, batches)
    return bench.runs.replay(content, batches), bench.runs.replay(content, batches)


def _where(check: str, bucket: int) -> Where:
    return Where(check=check, bucket=bucket, batch_size=bucket)
