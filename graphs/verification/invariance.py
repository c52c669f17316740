"""Does a row's result depend on the batch it is in? A report: libraries may choose either.

Greedy decoding gives the same tokens whatever else is served only if no row does. Three changes
are tried per bucket, all by replay: the rows in another order, row 0 among shorter sequences, and
the first rows in the next smaller bucket.
"""

from __future__ import annotations

import torch

from graphs.compare import find_mismatch, max_abs_diff
from graphs.report_parts import BucketInvariance, RowChange
from graphs.verification.findings import Where
from graphs.verification.variants import shorter_neighbours, take_rows
from graphs.verification.workbench import Workbench


def row_invariance(bench: Workbench, bucket: int) -> BucketInvariance | None:
    """The report for one bucket; None when a replay raised, which is a finding."""
    base = bench.maker.make(bucket)
    order = torch.randperm(bucket, generator=torch.Generator().manual_seed(bucket)).tolist()
    # change -> (variant, rows of the base that its rows are)
    variants = {}
    if bucket > 1:
        variants["another place"] = (take_rows(base, order), order)
        variants["shorter neighbours"] = (shorter_neighbours(base), [0])
    smaller = [size for size in bench.runner.captured_buckets if size < bucket]
    if smaller:
        rows = list(range(smaller[-1]))
        variants[f"bucket {smaller[-1]}"] = (take_rows(base, rows), rows)
    where = Where(check="batch invariance", bucket=bucket, batch_size=bucket)
    before = bench.replay(where, base)
    if before is None:
        return None
    changes = []
    for change, (variant, rows) in variants.items():
        bench.judge.checks[where.check] += 1
        after = bench.replay(where, variant)
        if after is None:
            return None
        changes.append(compare_rows(change, before.logits[0][rows], after.logits[0][: len(rows)]))
    return BucketInvariance(bucket=bucket, changes=tuple(changes))


def compare_rows(change: str, expected: torch.Tensor, actual: torch.Tensor) -> RowChange:
    """How many of the rows of two host tensors [rows, vocab] differ in bits, and by how much."""
    differing = [
        row
        for row, (a, b) in enumerate(zip(expected, actual))
        if find_mismatch("logits", a, b) is not None
    ]
    return RowChange(
        change=change,
        rows=len(expected),
        differing=len(differing),
        other_choice=int((expected.argmax(1) != actual.argmax(1)).sum()),
        max_abs_diff=max_abs_diff(expected, actual),
        mismatch=find_mismatch("logits", expected, actual),
    )
