"""Comparisons and gates as JSON objects."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from profiling.comparison import STATISTIC, Comparison, Finding, Gate, Key, Matched, Unmatched


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """All of it."""
    return {
        "headline": comparison.headline,
        "statistic": STATISTIC,
        "before": list(comparison.before),
        "after": list(comparison.after),
        "matched": [_matched(one) for one in comparison.matched],
        "only_before": [_unmatched(one) for one in comparison.only_before],
        "only_after": [_unmatched(one) for one in comparison.only_after],
        "damaged": comparison.damaged,
        "remarks": list(comparison.remarks),
        "notes": [note.to_dict() for note in comparison.notes],
    }


def gate_json(gate: Gate) -> dict[str, Any]:
    """The outcome and every finding; of the comparison what is not in the findings."""
    comparison = comparison_json(gate.comparison)
    return {
        "passed": gate.passed,
        "threshold": gate.threshold,
        "findings": [_finding(finding) for finding in gate.findings],
        **{key: comparison[key] for key in comparison if key not in _IN_FINDINGS},
    }


_IN_FINDINGS = frozenset({"matched", "only_before", "only_after"})


def _finding(finding: Finding) -> dict[str, Any]:
    found: Mapping[str, Any] = (
        _key(finding.key) if finding.matched is None else _matched(finding.matched)
    )
    return {"state": str(finding.state), "fails": finding.state.fails, "why": finding.why, **found}


def _matched(one: Matched) -> dict[str, Any]:
    found = one.difference
    return {
        **_key(one.key),
        "verdict": found.verdict.word(one.key.metric),
        "no_verdict_because": found.why,
        "ratio": found.estimate.ratio,
        "interval": [found.estimate.low, found.estimate.high],
        "p_value": found.estimate.p_value,
        "before": {**dataclasses.asdict(found.before), "where": one.where[0]},
        "after": {**dataclasses.asdict(found.after), "where": one.where[1]},
    }


def _unmatched(one: Unmatched) -> dict[str, Any]:
    return {
        **_key(one.key),
        "count": one.count,
        "typical": one.typical,
        "where": one.where,
        "other_side_has_it_as": list(one.elsewhere),
    }


def _key(key: Key) -> dict[str, Any]:
    return {
        "kernel": dataclasses.asdict(key.kernel),
        "metric": key.metric.name,
        "unit": key.metric.unit,
        "evidence": str(key.evidence),
    }
