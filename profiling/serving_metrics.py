"""TTFT, TPOT, ITL, throughput and goodput, from the times at which requests gave their tokens.

Every figure depends on choices that reports tend to leave out. Here they are fields: from when a
first token is counted, by which formula a time per token is computed, whether the end-of-sequence
token counts, how requests arrived. Requests that failed stay in the denominators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels_npu.errors import UsageError
from profiling.summary import Summary, summarise

Floats = NDArray[np.float64]

#: What the time to a first token is counted from.
STARTS = ("arrival", "queued", "prefill")


@dataclass(frozen=True, kw_only=True)
class RequestRecord:
    """One request. All times in seconds on one clock.

    start: when it arrived, was queued or began its prefill (`ServingRun.start` says which).
    token_times: when each output token was there, in order; empty if none came. Any sequence of
    numbers, an array where there are many. finished: when the request was over; the last token's
    time unless given. error: why it failed.

    Raises:
        UsageError: AI-BENCH-002 for times that go backwards.
    """

    start: float
    token_times: Sequence[float] | Floats = ()
    finished: float | None = None
    error: str = ""

    def __post_init__(self) -> None:
        times = np.asarray(self.token_times, dtype=np.float64)
        end = self.end
        late = len(times) > 0 and (times[0] < self.start or end < times[-1])
        if late or end < self.start or (times[1:] < times[:-1]).any():
            shown = (self.start, *times[:6], *(() if self.finished is None else (self.finished,)))
            raise UsageError(
                "AI-BENCH-002",
                f"the times of a request go backwards: {', '.join(f'{t:g}' for t in shown)}",
                rule="start <= first token <= ... <= last token <= finished, on one clock",
                fix="take all times of a request from one monotonic clock",
            )

    @property
    def end(self) -> float:
        """When the request was over."""
        last = self.token_times[-1] if len(self.token_times) else self.start
        return float(last) if self.finished is None else self.finished

    @property
    def succeeded(self) -> bool:
        """Whether it gave tokens and did not fail."""
        return not self.error and len(self.token_times) > 0

    @property
    def ttft(self) -> float:
        """Time to the first token."""
        return float(self.token_times[0]) - self.start

    @property
    def e2e(self) -> float:
        """Time to the end."""
        return self.end - self.start


#: Formulas for the time per output token, of (TTFT, end-to-end time, output tokens), each a number
#: or an array with one entry per request.
TPOT_FORMULAS: Mapping[str, Callable[[Any, Any, Any], Any]] = {
    "(E2E - TTFT) / (n - 1)": lambda ttft, e2e, n: (e2e - ttft) / (n - 1),
    "(E2E - TTFT) / n": lambda ttft, e2e, n: (e2e - ttft) / n,
    # Spreads the first token over all others: reported as TPOT by some, and not comparable.
    "E2E / n": lambda _, e2e, n: e2e / n,
}
RECOMMENDED_TPOT = "(E2E - TTFT) / (n - 1)"


def tpot(ttft: float, e2e: float, tokens: int, formula: str = RECOMMENDED_TPOT) -> float:
    """Time per output token, in the unit of `ttft` and `e2e`.

    tokens: output tokens, the first included.

    Raises:
        UsageError: AI-BENCH-003 for an unknown formula, or too few tokens for it.
    """
    compute = TPOT_FORMULAS.get(formula)
    least = 2 if formula == RECOMMENDED_TPOT else 1
    if compute is None or tokens < least:
        raise UsageError(
            "AI-BENCH-003",
            f"no time per output token by {formula!r} of {tokens} tokens",
            rule=f"the formulas are {', '.join(TPOT_FORMULAS)}; the first takes two tokens",
            fix="leave out requests with a single token, which have no time per further token",
        )
    return float(compute(ttft, e2e, tokens))


@dataclass(frozen=True, kw_only=True)
class Slo:
    """Limits in seconds that a good request keeps; None is no limit."""

    ttft: float | None = None
    tpot: float | None = None
    e2e: float | None = None


@dataclass(frozen=True, kw_only=True)
class Load:
    """How requests arrived: at most `concurrency` at a time (closed), or at a rate per second
    (open), with the process named.

    Raises:
        UsageError: AI-BENCH-004 for both, or neither, or one that lets no request arrive.
    """

    concurrency: int | None = None
    rate: float | None = None
    process: str = ""

    def __post_init__(self) -> None:
        given = [one for one in (self.concurrency, self.rate) if one is not None]
        if len(given) != 1 or not given[0] > 0:
            raise UsageError(
                "AI-BENCH-004",
                f"a load with concurrency={self.concurrency} and rate={self.rate}",
                rule="requests arrive in a closed loop (a concurrency) or an open one (a rate): "
                "latencies of the two are not comparable",
                fix="give exactly one of concurrency and rate, above zero",
            )

    def __str__(self) -> str:
        if self.concurrency is not None:
            return f"closed loop, {self.concurrency} at a time"
        return f"open loop, {self.rate:g} requests/s" + (
            f", {self.process}" if self.process else ""
        )


@dataclass(frozen=True, kw_only=True)
class ServingRun:
    """Requests of one measurement and the choices behind its figures.

    start: one of STARTS. eos_counted: whether the end-of-sequence token is among the output tokens.

    Raises:
        UsageError: AI-BENCH-005 without requests, or for an unknown start or formula.
    """

    requests: Sequence[RequestRecord]
    load: Load
    start: str
    eos_counted: bool
    tpot_formula: str = RECOMMENDED_TPOT
    slo: Slo = field(default_factory=Slo)

    def __post_init__(self) -> None:
        if self.start not in STARTS or self.tpot_formula not in TPOT_FORMULAS or not self.requests:
            raise UsageError(
                "AI-BENCH-005",
                f"a run of {len(self.requests)} requests with start={self.start!r} and "
                f"tpot_formula={self.tpot_formula!r}",
                rule=f"start is one of {', '.join(STARTS)}; the formula one of "
                f"{', '.join(TPOT_FORMULAS)}; there is at least one request",
                fix="say from when a first token is counted, and how a time per token is computed",
            )


@dataclass(frozen=True, kw_only=True)
class ServingMetrics:
    """Figures of a run.

    seconds: from the first start to the last end. failed: requests without success, which count in
    `requests_per_second` and `goodput` as requests that brought nothing. itl: all gaps between
    tokens of a request, pooled. goodput: requests per second within the SLO. good_share: of all
    requests, failed ones included.
    """

    definitions: dict[str, str]
    requests: int
    failed: int
    errors: dict[str, int]
    seconds: float
    output_tokens: int
    ttft: Summary | None
    tpot: Summary | None
    itl: Summary | None
    e2e: Summary | None
    requests_per_second: float
    tokens_per_second: float
    goodput: float
    good_share: float

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready fields."""
        summaries = ("ttft", "tpot", "itl", "e2e")
        made = {name: getattr(self, name) for name in summaries}
        return {k: v for k, v in vars(self).items() if k not in summaries} | {
            name: None if summary is None else summary.to_dict() for name, summary in made.items()
        }


def measure(run: ServingRun) -> ServingMetrics:
    """The figures of `run`. Latencies are of requests that succeeded; rates count all."""
    good = [r for r in run.requests if r.succeeded]
    failed = [r for r in run.requests if not r.succeeded]
    requests, served = [*good, *failed], slice(len(good))
    starts = np.array([r.start for r in requests])
    ends = np.array([r.end for r in requests])
    seconds = float(ends.max() - starts.min())
    tokens = sum(len(r.token_times) for r in requests)
    counts = np.array([len(r.token_times) for r in good], dtype=np.int64)
    ttft = np.array([r.token_times[0] for r in good], dtype=np.float64) - starts[served]
    e2e = (ends - starts)[served]
    # A single token has no time per further token.
    several = counts > 1
    per_token = np.zeros(len(good))
    per_token[several] = TPOT_FORMULAS[run.tpot_formula](
        ttft[several], e2e[several], counts[several]
    )
    within = _within(run.slo, ttft=ttft, tpot=per_token, e2e=e2e)
    errors: dict[str, int] = {}
    for request in failed:
        why = request.error or "no token"
        errors[why] = errors.get(why, 0) + 1
    return ServingMetrics(
        definitions={
            "start": run.start,
            "tpot": run.tpot_formula,
            "eos": "counted" if run.eos_counted else "not counted",
            "load": str(run.load),
            "latencies": "of requests that succeeded",
        },
        requests=len(run.requests),
        failed=len(failed),
        errors=errors,
        seconds=seconds,
        output_tokens=tokens,
        ttft=_summary(ttft),
        tpot=_summary(per_token[several]),
        itl=_summary(np.concatenate([(), *(_gaps(r.token_times) for r in good)])),
        e2e=_summary(e2e),
        requests_per_second=_rate(len(good), seconds),
        tokens_per_second=_rate(tokens, seconds),
        goodput=_rate(within, seconds),
        good_share=within / len(run.requests),
    )


def _within(slo: Slo, **latencies: Floats) -> int:
    """How many requests keep every limit; latencies by the names of the limits."""
    kept = np.ones(len(latencies["ttft"]), dtype=bool)
    for name, values in latencies.items():
        limit = getattr(slo, name)
        if limit is not None:
            kept &= values <= limit
    return int(kept.sum())


def _summary(seconds: Floats) -> Summary | None:
    return summarise(seconds, "s") if len(seconds) else None


def _gaps(times: Sequence[float] | Floats) -> Floats:
    values = np.asarray(times, dtype=np.float64)
    return values[1:] - values[:-1]


def _rate(count: int, seconds: float) -> float:
    return count / seconds if seconds > 0 else 0.0
