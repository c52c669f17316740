"""A comparison as tables for people, one for each figure and evidence level."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby

from ascend_infer.cli import output
from profiling.analysis.figures import digits
from profiling.comparison import STATISTIC, Comparison, Key, Matched, Spread, Unmatched, Verdict
from profiling.printable import shortened

_LONGEST_NAME = 72

_COLUMNS = (
    *("kernel", "before", "range", "after", "range", "after/before", "95% interval"),
    *("verdict", "repetitions"),
)


#: Verdicts whose rows come before the others, so that --top does not hide what changed.
_FIRST = {Verdict.WORSE: 0, Verdict.BETTER: 1, Verdict.DIFFERENT: 2}


def print_comparison(comparison: Comparison, *, top: int) -> None:
    """Everything on standard output; what is missing of the conditions on its first line."""
    if comparison.headline:
        print(comparison.headline)
    print(f"before: {', '.join(comparison.before)}")
    print(f"after:  {', '.join(comparison.after)}")
    for (metric, evidence), group in groupby(
        comparison.matched, key=lambda one: (one.key.metric, one.key.evidence)
    ):
        rows = sorted(group, key=lambda one: _FIRST.get(one.difference.verdict, len(_FIRST)))
        counts = Counter(row.difference.verdict.word(metric) for row in rows)
        told = ", ".join(f"{count:,} {verdict}" for verdict, count in counts.items())
        _print(f"{metric}, {evidence}: {told}", _COLUMNS, [_matched(row) for row in rows], top)
        for reason in dict.fromkeys(row.difference.why for row in rows if row.difference.why):
            print(f"no verdict: {reason}")
    if not comparison.matched:
        print("no figure of a kernel is on both sides under one evidence level")
    print_unmatched("before", comparison.only_before, top)
    print_unmatched("after", comparison.only_after, top)
    print_footer(comparison)


def print_unmatched(side: str, unmatched: Sequence[Unmatched], top: int) -> None:
    """What only one side has; nothing when there is nothing."""
    if unmatched:
        _print(
            f"only {side}",
            ("kernel", "figure", "value", "repetitions", "evidence", "where", "the other side"),
            [
                (
                    name_of(one.key),
                    one.key.metric,
                    digits(one.typical),
                    one.count,
                    one.key.evidence,
                    one.where,
                    f"has it as {', '.join(one.elsewhere)}: not compared" if one.elsewhere else "",
                )
                for one in unmatched
            ],
            top,
        )


def print_footer(comparison: Comparison) -> None:
    """How the numbers came about, and what was wrong with the files."""
    if any(one.key.has_noise for one in comparison.matched):
        print(f"statistic: {STATISTIC}")
    if any(not one.key.has_noise for one in comparison.matched):
        print("counts of simulated launches have no noise: every difference is one")
    for remark in comparison.remarks:
        print(f"note: {remark}")
    for note in comparison.notes:
        print(note)


def ratio_cells(one: Matched) -> tuple[str, str, str, str, str]:
    """Before, after, ratio, interval and verdict."""
    found = one.difference
    estimate = found.estimate
    interval = ""
    if one.key.has_noise and estimate.low is not None and estimate.high is not None:
        interval = f"{estimate.low:.4f} to {estimate.high:.4f}"
    return (
        digits(found.before.typical),
        digits(found.after.typical),
        f"{estimate.ratio:.4f}",
        interval,
        found.verdict.word(one.key.metric),
    )


def name_of(key: Key) -> str:
    """The kernel; the middle of a long list of shapes is left out."""
    return shortened(str(key.kernel), _LONGEST_NAME)


def _matched(one: Matched) -> tuple[object, ...]:
    before, after, *rest = ratio_cells(one)
    found = one.difference
    repetitions = f"{found.before.count:,} and {found.after.repetitions}"
    return (
        name_of(one.key),
        before,
        _range(found.before),
        after,
        _range(found.after),
        *rest,
        repetitions,
    )


def _range(spread: Spread) -> str:
    return "" if spread.count == 1 else f"{digits(spread.low)} to {digits(spread.high)}"


def _print(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], top: int) -> None:
    every = [list(map(str, row)) for row in rows]
    more = len(every) - top
    note = f"{more:,} more; --top shows them" if more > 0 else ""
    print_filled(title, columns, every[:top], note)


def print_filled(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], note: str
) -> None:
    """A table without the columns in which no row says anything."""
    kept = [place for place in range(len(columns)) if any(row[place] for row in rows)]
    output.print_table(
        title, [columns[p] for p in kept], [[row[p] for p in kept] for row in rows], note=note
    )
