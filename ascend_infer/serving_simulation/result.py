"""Figures of a simulated schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ascend_infer.serving_simulation.engine import Engine
from ascend_infer.serving_simulation.scheduler import CacheRules, Scheduler
from ascend_infer.serving_simulation.timeline import Timeline
from ascend_infer.serving_simulation.workload import Floats, Ints
from graphs.buckets import PaddingReport
from kernels_npu.evidence import Evidence
from profiling.serving_metrics import Load, RequestRecord, ServingMetrics, ServingRun, Slo, measure

#: Which figures came to be known how.
EVIDENCE: Mapping[str, str] = {
    "schedule": str(Evidence.SIMULATED),
    "times": str(Evidence.MODELLED),
}


@dataclass(frozen=True, kw_only=True)
class CacheFigures:
    """capacity: blocks, None without a limit. mean: blocks in use, over time. hit_share: of the
    tokens that admissions wanted in the cache, those that were there."""

    capacity: int | None
    block_size: int
    peak: int
    mean: float
    preemptions: int
    lost_tokens: int
    hit_tokens: int
    hit_share: float


@dataclass(frozen=True, kw_only=True)
class ServingResult:
    """A run of the simulation. Times are seconds of the step-time model, never of a device.

    slot_utilisation: tokens per decode step as a share of the slots. mean_batch: tokens per decode
    step. busy: share of the time in which some step was running. steps: decode steps, of which
    mixed ones compute prompts, too; a step that computes prompts only is a prefill step.
    padding: of the bucket plan, if there is one. refused: reason -> requests.
    first_token_waits: seconds, of requests that were served.
    """

    scheduler: Scheduler
    metrics: ServingMetrics
    steps: int
    prefill_steps: int
    mixed_steps: int
    slot_utilisation: float
    mean_batch: float
    busy: float
    cache: CacheFigures
    padding: PaddingReport | None
    refused: Mapping[str, int]
    assumptions: tuple[str, ...]
    timeline: Timeline
    first_token_waits: Floats

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready fields; of the timeline a sample."""
        return {
            "batching": self.scheduler.batching,
            "evidence": dict(EVIDENCE),
            "slots": self.scheduler.slots,
            "metrics": self.metrics.to_dict(),
            "decode_steps": self.steps,
            "prefill_steps": self.prefill_steps,
            "mixed_steps": self.mixed_steps,
            "slot_utilisation": self.slot_utilisation,
            "mean_batch": self.mean_batch,
            "busy": self.busy,
            "kv_cache": vars(self.cache),
            "over_time": self.over_time(),
            "padding": None if self.padding is None else self.padding.to_dict(),
            "refused": dict(self.refused),
            "assumptions": list(self.assumptions),
        }

    def over_time(self, points: int = 101) -> dict[str, list[float]]:
        """KV blocks in use (on a line within a stretch) and decoding sequences, evenly spaced."""
        used_at, blocks = self.timeline.cache_use()
        starts, live = self.timeline.column("start"), self.timeline.column("live")
        ends = self.timeline.stretch_ends
        if not used_at.size:
            return {"seconds": [], "kv_blocks": [], "decoding": []}
        seconds = np.linspace(used_at[0], used_at[-1], points)
        last = np.searchsorted(used_at, seconds, side="right") - 1
        # Every second entry is the end of a stretch; what follows it at a later time is idleness.
        idle = (last % 2 == 1) & (seconds > used_at[last])
        held = np.where(idle, 0.0, np.interp(seconds, used_at, blocks))
        now = np.searchsorted(starts, seconds, side="right") - 1
        within = (now >= 0) & (seconds < ends[now]) if live.size else np.zeros(points, dtype=bool)
        decoding = np.where(within, live[now], 0) if live.size else np.zeros(points)
        return {
            "seconds": seconds.tolist(),
            "kv_blocks": held.tolist(),
            "decoding": decoding.tolist(),
        }


def records(engine: Engine) -> list[RequestRecord]:
    """One record per request, in the order of arrival."""
    timeline = engine.timeline
    found = []
    for index, arrived in enumerate(engine.source.arrived):
        why = timeline.refused.get(index, "")
        times = timeline.token_times(index)
        found.append(RequestRecord(start=arrived, token_times=times, error=why))
    return found


def collect(
    engine: Engine, *, scheduler: Scheduler, load: Load, slo: Slo, assumptions: tuple[str, ...]
) -> ServingResult:
    """The figures of what an engine recorded in its run."""
    timeline, requests = engine.timeline, records(engine)
    metrics = measure(
        ServingRun(
            requests=requests,
            load=load,
            start="arrival",
            eos_counted=True,
            slo=slo,
        )
    )
    steps, live = timeline.column("steps"), timeline.column("live")
    total = int(steps.sum())
    tokens = float((steps * live).sum())
    working = float((timeline.stretch_ends - timeline.column("start")).sum())
    working += sum(step.end - step.start for step in timeline.prefills)
    plan = scheduler.buckets
    reasons: dict[str, int] = {}
    for why in timeline.refused.values():
        reasons[why] = reasons.get(why, 0) + 1
    return ServingResult(
        scheduler=scheduler,
        metrics=metrics,
        steps=total,
        prefill_steps=len(timeline.prefills),
        mixed_steps=int(timeline.column("mixed").sum()),
        slot_utilisation=tokens / (total * scheduler.slots) if total else 0.0,
        mean_batch=tokens / total if total else 0.0,
        busy=working / metrics.seconds if metrics.seconds > 0 else 0.0,
        cache=_cache(engine, scheduler.cache),
        padding=None if plan is None else plan.padding(timeline.batch_sizes()),
        refused=reasons,
        assumptions=assumptions,
        timeline=timeline,
        first_token_waits=np.array([r.ttft for r in requests if r.succeeded]),
    )


def _cache(engine: Engine, rules: CacheRules) -> CacheFigures:
    times, blocks = engine.timeline.cache_use()
    cache = engine.cache
    return CacheFigures(
        capacity=rules.blocks,
        block_size=rules.block_size,
        peak=int(blocks.max(initial=0)),
        mean=_time_mean(times, blocks),
        preemptions=engine.preemptions,
        lost_tokens=cache.lost_tokens,
        hit_tokens=cache.hit_tokens,
        hit_share=cache.hit_tokens / cache.wanted_tokens if cache.wanted_tokens else 0.0,
    )


def _time_mean(times: Floats, blocks: Ints) -> float:
    """Within a stretch use grows evenly, between two the server is idle or at the same instant."""
    if times.size < 2 or times[-1] <= times[0]:
        return 0.0
    spans, within = np.diff(times), (blocks[1:] + blocks[:-1]) / 2
    within[1::2] = 0.0  # from the end of one stretch to the start of the next nothing is held
    return float((spans * within).sum() / (times[-1] - times[0]))
