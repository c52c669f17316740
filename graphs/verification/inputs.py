"""What must matter and what must not: mutated inputs, other rows, padding, foreign cache blocks."""

from __future__ import annotations

import random
from functools import partial

from graphs.batch import InputName
from graphs.verification.findings import Where
from graphs.verification.proof_runs import Run
from graphs.verification.scenarios import Scenario
from graphs.verification.variants import poisoned_blocks, take_rows, with_padding
from graphs.verification.workbench import Workbench

# Lengths before blocks: with stale lengths a replay may not get as far as the blocks.
MUTATION_ORDER: tuple[InputName, ...] = (
    "token_ids",
    "positions",
    "slot_mapping",
    "seq_lens",
    "block_table",
)


def dependence(bench: Workbench, bucket: int) -> bool:
    """Each input mutated in turn, then everything that must not matter; False when one raised."""
    base = bench.maker.make(bucket)
    where = Where(check="base", bucket=bucket, batch_size=bucket)
    first = bench.compare(where, base, [base.batch])
    if first is None:
        return False
    eager, replay = first
    for name in MUTATION_ORDER:
        mutated = bench.maker.mutate(base, name)
        if mutated is None:
            bench.notes.append(f"bucket {bucket}: {name} was not mutated, every block is owned")
            continue
        where = Where(check=f"mutated {name}", bucket=bucket, batch_size=bucket)
        pair = bench.compare(where, mutated, [mutated.batch])
        if pair is None:
            return False
        bench.judge.mutation(name, bucket, base, (eager, pair[0]), (replay, pair[1]))
    return _foreign_content(bench, bucket, base, replay) and _padding(bench, bucket, base)


def _foreign_content(bench: Workbench, bucket: int, base: Scenario, replay: Run) -> bool:
    variants = {"unowned cache content": (bench.maker.unowned_content(base), base.size)}
    if base.size > 1:
        variants["the other rows"] = (bench.maker.other_rows(base), 1)
    poisoned = poisoned_blocks(base, bench.geometry)
    if poisoned is not None:
        variants["cache blocks that no block table names"] = (poisoned, base.size)
    return all(
        _isolated(bench, what, bucket, base, replay, variant, rows)
        for what, (variant, rows) in variants.items()
    )


def _padding(bench: Workbench, bucket: int, base: Scenario) -> bool:
    """Half a bucket of sequences: what the padding rows hold must not matter."""
    if bucket < 2:
        return True
    real = take_rows(base, range(bucket // 2))
    plain = with_padding(real, bucket, bench.geometry)
    other = with_padding(real, bucket, bench.geometry, random.Random(bucket))
    replay = bench.replay(Where(check="padding rows", bucket=bucket, batch_size=real.size), plain)
    if replay is None:
        return False
    return _isolated(bench, "padding rows", bucket, plain, replay, other, real.size)


def _isolated(
    bench: Workbench,
    what: str,
    bucket: int,
    base: Scenario,
    replay: Run,
    variant: Scenario,
    rows: int,
) -> bool:
    where = Where(check=f"changed {what}", bucket=bucket, batch_size=rows)
    run = bench.replay(where, variant)
    if run is None:
        return False
    again = partial(bench.runs.replay, base.content, [base.batch])
    bench.judge.isolation(what, bucket, base, replay, run, rows, again)
    bench.judge.stray_writes(where, variant, [variant.batch], run, "replay")
    return True
