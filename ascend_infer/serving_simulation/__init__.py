"""Scheduling of LLM serving, simulated event by event: no device, no model, no torch.

result = simulate(traffic.sample(), Scheduler(slots=64), GivenStepTime(step=0.008))
result.metrics.ttft.median
"""

from __future__ import annotations

from ascend_infer.progress import Reporter
from ascend_infer.serving_simulation.arrivals import AtOnce, Bursts, ClosedLoop, Poisson
from ascend_infer.serving_simulation.engine import Engine
from ascend_infer.serving_simulation.lengths import Lengths, parse_lengths
from ascend_infer.serving_simulation.result import EVIDENCE, ServingResult, collect
from ascend_infer.serving_simulation.scheduler import BATCHINGS, CacheRules, Scheduler
from ascend_infer.serving_simulation.step_time import GivenStepTime, StepTime
from ascend_infer.serving_simulation.trace_file import read_trace
from ascend_infer.serving_simulation.traffic import Traffic
from ascend_infer.serving_simulation.workload import Workload
from profiling.serving_metrics import Slo

__all__ = [
    "AtOnce",
    "BATCHINGS",
    "Bursts",
    "CacheRules",
    "ClosedLoop",
    "EVIDENCE",
    "GivenStepTime",
    "Lengths",
    "Poisson",
    "Scheduler",
    "ServingResult",
    "Slo",
    "StepTime",
    "Traffic",
    "Workload",
    "parse_lengths",
    "read_trace",
    "simulate",
]


def simulate(
    workload: Workload,
    scheduler: Scheduler,
    step_time: StepTime,
    *,
    slo: Slo | None = None,
    reporter: Reporter | None = None,
) -> ServingResult:
    """Serve a workload and measure; the same arguments give the same figures.

    Args:
        workload: the requests.
        scheduler: the rules.
        step_time: where seconds come from.
        slo: limits that a good request keeps.
        reporter: told how many requests are over.
    """
    engine = Engine(workload, scheduler, step_time, reporter)
    engine.run()
    return collect(
        engine,
        scheduler=scheduler,
        load=workload.load,
        slo=slo or Slo(),
        assumptions=(*step_time.assumptions, *scheduler.assumptions),
    )
