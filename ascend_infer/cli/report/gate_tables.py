"""The outcome of a gate as tables for people, failures first."""

from __future__ import annotations

from collections import Counter

from ascend_infer.cli.report.comparison_tables import (
    name_of,
    print_filled,
    print_footer,
    ratio_cells,
)
from profiling.comparison import Finding, Gate

_COLUMNS = (
    *("state", "kernel", "figure", "evidence", "before", "after", "after/before"),
    *("95% interval", "why"),
)


def print_gate(gate: Gate, *, top: int) -> None:
    """Everything on standard output; failures are never cut off."""
    comparison = gate.comparison
    if comparison.headline:
        print(comparison.headline)
    print(
        f"{'passed' if gate.passed else 'FAILED'}: {_counts(gate)}; threshold {gate.threshold:.1%}"
    )
    failed = sum(finding.state.fails for finding in gate.findings)
    shown = gate.findings[: max(top, failed)]
    more = len(gate.findings) - len(shown)
    print_filled(
        f"{', '.join(comparison.after)} against {', '.join(comparison.before)}",
        _COLUMNS,
        [list(map(str, _row(finding))) for finding in shown],
        f"{more:,} more; --top shows them" if more > 0 else "",
    )
    print_footer(comparison)


def _counts(gate: Gate) -> str:
    if not gate.comparison.matched:
        return "nothing could be compared"
    counts = Counter(str(finding.state) for finding in gate.findings)
    told = [f"{count} {state}" for state, count in counts.items()]
    return ", ".join([*told, "files are damaged"] if gate.comparison.damaged else told)


def _row(finding: Finding) -> tuple[object, ...]:
    key = finding.key
    cells = ("", "", "", "", "") if finding.matched is None else ratio_cells(finding.matched)
    return (finding.state, name_of(key), key.metric, key.evidence, *cells[:4], finding.why)
