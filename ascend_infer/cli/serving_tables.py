"""What `simulate-serving` prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ascend_infer.cli import output
from ascend_infer.serving_simulation import EVIDENCE, ServingResult, Slo, Workload
from profiling.summary import Summary, samples_needed

_QUANTILES = (0.95, 0.99)
_SCHEDULER = "batching, slots"


def as_json(
    results: Sequence[ServingResult], workload: Workload, *, passed: bool
) -> dict[str, Any]:
    """One object: the traffic, and what each scheduler made of it."""
    return {
        "passed": passed,
        "evidence": dict(EVIDENCE),
        "traffic": {
            "requests": len(workload.prompt_tokens),
            "load": str(workload.load),
            "prompt_tokens": int(workload.prompt_tokens.sum()),
            "output_tokens": int(workload.output_tokens.sum()),
        },
        "results": [result.to_dict() for result in results],
    }


def show(results: Sequence[ServingResult], workload: Workload, slo: Slo) -> None:
    """Tables for people, then what they rest on."""
    _latencies(results)
    _throughput(results, slo)
    _cache(results)
    _padding(results)
    sentences = dict.fromkeys(s for result in results for s in result.assumptions)
    print(f"traffic: {len(workload.prompt_tokens):,} requests, {workload.load}")
    for sentence in sentences:
        print(f"assumed: {sentence}")


def _latencies(results: Sequence[ServingResult]) -> None:
    rows = []
    for result in results:
        metrics = result.metrics
        cells = [result.scheduler.label]
        for summary in (metrics.ttft, metrics.tpot, metrics.itl):
            cells += _percentiles(summary)
        rows.append(cells)
    heads = [f"{m} {q}" for m in ("TTFT", "TPOT", "ITL") for q in ("p50", "p95", "p99")]
    output.print_table(
        "Latencies, ms (modelled)",
        (_SCHEDULER, *heads),
        rows,
        note=f"a percentile takes samples beyond it: p95 {samples_needed(0.95)}, "
        f"p99 {samples_needed(0.99)}. TPOT: {results[0].metrics.definitions['tpot']}",
    )


def _percentiles(summary: Summary | None) -> list[str]:
    if summary is None:
        return ["-", "-", "-"]
    values = [summary.median, *(summary.quantiles[q] for q in _QUANTILES)]
    return ["-" if value is None else f"{1e3 * value:,.2f}" for value in values]


def _throughput(results: Sequence[ServingResult], slo: Slo) -> None:
    rows = []
    for result in results:
        metrics = result.metrics
        rows.append(
            (
                result.scheduler.label,
                f"{metrics.tokens_per_second:,.1f}",
                f"{metrics.requests_per_second:,.3f}",
                f"{metrics.goodput:,.3f} ({metrics.good_share:.1%})",
                f"{metrics.seconds:,.2f}",
                f"{result.steps:,}",
                f"{result.slot_utilisation:.1%}",
                f"{result.busy:.1%}",
                ", ".join(f"{n} {why}" for why, n in result.refused.items()) or "0",
            )
        )
    limits = {n: v for n, v in vars(slo).items() if v is not None}
    kept = ", ".join(f"{name.upper()} <= {1e3 * v:g} ms" for name, v in limits.items())
    output.print_table(
        "Throughput per second (modelled), schedule (simulated)",
        (
            *(_SCHEDULER, "tokens", "requests", "goodput (share)", "seconds", "decode steps"),
            *("slot use", "busy", "refused"),
        ),
        rows,
        note=f"goodput: of requests with {kept or 'no limit: give --slo-ttft-ms or others'}",
    )


def _cache(results: Sequence[ServingResult]) -> None:
    rows = []
    for result in results:
        cache = result.cache
        limit = "no limit" if cache.capacity is None else f"{cache.capacity:,}"
        rows.append(
            (
                result.scheduler.label,
                limit,
                f"{cache.peak:,}",
                f"{cache.mean:,.1f}",
                f"{cache.preemptions:,}",
                f"{cache.lost_tokens:,}",
                f"{cache.hit_tokens:,} ({cache.hit_share:.1%})",
            )
        )
    output.print_table(
        f"KV cache, blocks of {results[0].cache.block_size} tokens (simulated)",
        (_SCHEDULER, "blocks", "most in use", "mean", "preemptions", "tokens lost", "prefix hits"),
        rows,
    )


def _padding(results: Sequence[ServingResult]) -> None:
    rows = [
        (
            result.scheduler.label,
            f"{result.padding.rows:,}",
            f"{result.padding.padded_rows:,}",
            f"{result.padding.waste:.1%}",
            f"{result.padding.eager_steps:,}",
            f"{result.mixed_steps:,}",
        )
        for result in results
        if result.padding is not None
    ]
    if rows:
        output.print_table(
            "Decode graphs (simulated)",
            (_SCHEDULER, "rows", "padded rows", "padding", "too large for a graph", "mixed steps"),
            rows,
        )
