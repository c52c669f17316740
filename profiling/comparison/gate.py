"""A comparison with a baseline as a check: what makes it fail, and how coarse it is."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from profiling.analysis.figures import digits
from profiling.comparison.comparing import Comparison, Matched
from profiling.comparison.measurement import Better, Key
from profiling.comparison.verdict import Verdict


class State(str, enum.Enum):
    """What a gate says about one figure."""

    REGRESSION = "regression"
    UNKNOWN = "undecided"
    VANISHED = "vanished"
    EVIDENCE = "other evidence"
    PASSED = "passed"
    IMPROVED = "improved"
    NEW = "new"
    UNJUDGED = "not judged"

    def __str__(self) -> str:
        return self.value

    @property
    def fails(self) -> bool:
        """Whether the check has failed over it."""
        return self in _FAILURES


_FAILURES = frozenset({State.REGRESSION, State.UNKNOWN, State.VANISHED, State.EVIDENCE})


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One figure: its state, and a sentence on how that came about.

    matched: None for what only one side has.
    """

    key: Key
    state: State
    why: str
    matched: Matched | None = None


@dataclass(frozen=True, kw_only=True)
class Gate:
    """The outcome.

    Args:
        threshold: by how much a figure may get worse, as a share.
        findings: failures first.
        comparison: what they rest on.
    """

    threshold: float
    findings: tuple[Finding, ...]
    comparison: Comparison

    @property
    def passed(self) -> bool:
        """Whether nothing failed; damaged files and an empty comparison fail, too."""
        return bool(self.comparison.matched) and not (
            self.comparison.damaged or any(finding.state.fails for finding in self.findings)
        )


def judge(comparison: Comparison, threshold: float) -> Gate:
    """Judge what was compared with a baseline, which is its first side."""
    findings = [
        *(_matched(one, threshold) for one in comparison.matched),
        *_gone(comparison),
        *_new(comparison),
    ]
    order = list(State)
    findings.sort(key=lambda finding: order.index(finding.state))
    return Gate(threshold=threshold, findings=tuple(findings), comparison=comparison)


def _matched(one: Matched, threshold: float) -> Finding:
    metric, found = one.key.metric, one.difference
    if metric.better is Better.UNKNOWN:
        return _finding(one, State.UNJUDGED, "nobody knows which direction is better")
    worse = _worse_by(found.estimate.ratio, metric.better)
    # A figure that is worse by the threshold exactly has not gone beyond it.
    beyond = round(worse - threshold, 12) > 0
    if found.verdict is Verdict.NONE:
        told = f"{found.why}; {_percent(worse)}"
        if beyond:
            return _finding(one, State.UNKNOWN, f"beyond the threshold, and undecided: {told}")
        return _finding(one, State.PASSED, f"within the threshold; {told}")
    if found.is_real and beyond:
        beyond_what = "threshold and noise" if one.key.has_noise else "the threshold"
        return _finding(one, State.REGRESSION, f"{_percent(worse)}, beyond {beyond_what}")
    if found.verdict is Verdict.BETTER:
        return _finding(one, State.IMPROVED, _percent(worse))
    return _finding(one, State.PASSED, _passed(one, worse, threshold))


def _passed(one: Matched, worse: float, threshold: float) -> str:
    """Why a figure passed, and whether a regression would have been seen."""
    estimate = one.difference.estimate
    bounds = [b for b in (estimate.low, estimate.high) if b is not None]
    worst = max(_worse_by(bound, one.key.metric.better) for bound in bounds)
    told = _percent(worse)
    if one.difference.verdict is Verdict.NOISE and worst > threshold:
        told += f"; too noisy for this threshold: {_percent(worst)} would fit, too"
    return told


def _gone(comparison: Comparison) -> Iterator[Finding]:
    for one in comparison.only_before:
        if one.elsewhere:
            why = f"the baseline's is {one.key.evidence}, this one {', '.join(one.elsewhere)}"
            yield Finding(key=one.key, state=State.EVIDENCE, why=why)
        else:
            why = f"the baseline has {digits(one.typical)}, {one.where}"
            yield Finding(key=one.key, state=State.VANISHED, why=why)


def _new(comparison: Comparison) -> Iterator[Finding]:
    for one in comparison.only_after:
        if not one.elsewhere:
            yield Finding(key=one.key, state=State.NEW, why=f"not in the baseline, {one.where}")


def _worse_by(ratio: float, better: Better) -> float:
    """By which share a figure got worse; negative when it got better."""
    if better is Better.MORE:
        return 1 / ratio - 1 if ratio else float("inf")
    return ratio - 1


def _percent(worse: float) -> str:
    return f"{abs(worse):.1%} {'worse' if worse > 0 else 'better'}" if worse else "unchanged"


def _finding(one: Matched, state: State, why: str) -> Finding:
    return Finding(key=one.key, state=state, why=why, matched=one)
