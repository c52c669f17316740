"""Eager against replay: every edge of every bucket, and the step into a new block."""

from __future__ import annotations

from graphs.compare import find_mismatch
from graphs.errors import GraphError
from graphs.stats import EagerReason
from graphs.verification.findings import Where
from graphs.verification.workbench import Workbench


def edges(bench: Workbench, number: int, bucket: int) -> bool:
    """Fresh batches of the sizes at which a bucket begins and ends; False when replay raised."""
    # Not the plan's own rule: which bucket serves a size is part of what is verified.
    smaller = max((size for size in bench.runner.plan.sizes if size < bucket), default=0)
    # Full first: its rows are what a padding row that is not reset would still hold.
    for size in dict.fromkeys((bucket, max(bucket - 1, smaller + 1), smaller + 1)):
        scenario = bench.maker.make(size)
        where = Where(check="round", round=number, bucket=bucket, batch_size=size)
        if bench.compare(where, scenario, [scenario.batch]) is None:
            return False
    return True


def block_border(bench: Workbench, bucket: int) -> bool:
    """Two consecutive steps, the second of which starts a new block in every row."""
    scenario = bench.maker.border_scenario(bucket)
    if scenario is None:
        bench.notes.append(
            f"bucket {bucket}: no step crosses a block border, the cache has not two blocks per row"
        )
        return True
    where = Where(check="block border", bucket=bucket, batch_size=bucket)
    following = bench.maker.next_step(scenario.batch)
    return bench.compare(where, scenario, [scenario.batch, following]) is not None


def beyond_largest(bench: Workbench) -> bool:
    """One row more than the largest bucket holds: refused if strict, else eager and counted."""
    runner, largest = bench.runner, bench.runner.plan.largest
    size = largest + 1
    where = Where(check="beyond the largest bucket", bucket=largest, batch_size=size)
    if bench.geometry.num_blocks <= size:
        bench.notes.append(f"no batch of {size} rows was made, the cache has too few blocks")
        return True
    scenario = bench.maker.make(size)
    bench.judge.checks[where.check] += 1
    bench.state.write(scenario.content)
    before = runner.stats.eager[EagerReason.BATCH_TOO_LARGE]
    try:
        logits = runner.run(scenario.batch).to("cpu", copy=True)
    except GraphError as error:
        if not (runner.strict and error.code == "AI-GRAPH-009"):
            bench.judge.findings.add(error.code, where, error.what)
        return True
    if runner.stats.eager[EagerReason.BATCH_TOO_LARGE] != before + 1 or len(logits) != size:
        bench.judge.findings.add(
            "AI-VERIFY-013",
            where,
            f"a batch of {size} rows gave {len(logits)} rows of logits and was not counted as "
            f"larger than the largest bucket, {largest}",
        )
        return True
    bench.state.write(scenario.content)
    # Not padded, as the runner ran it: another width of the block table may give other bits.
    expected = runner.run_eager(scenario.batch).cpu()
    mismatch = find_mismatch("logits", expected, logits, bench.judge.tolerance)
    if mismatch is not None:
        bench.judge.findings.add(
            "AI-VERIFY-007", where, "a step that left the graph computes other logits", mismatch
        )
    return True
