"""How many decode steps the serving simulation gets through in a second of CPU time, one thread.

A decode step is one step of the simulated server: every sequence in the batch gets a token. Tokens
are counted beside it. `schedule` is the simulation alone, `with figures` includes the time of every
token, all percentiles and the use of the cache.

python -m benchmarks.serving [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ascend_infer.estimates import load_decoder, roof_of
from ascend_infer.serving_simulation import (
    CacheRules,
    ClosedLoop,
    GivenStepTime,
    Poisson,
    Scheduler,
    StepTime,
    Traffic,
    parse_lengths,
    simulate,
)
from ascend_infer.serving_simulation.arrivals import Arrivals
from ascend_infer.serving_simulation.engine import Engine
from ascend_infer.serving_simulation.estimated import EstimatedStepTime
from graphs.buckets import BucketPlan

GIVEN = GivenStepTime(step=0.008, per_context_token=1e-8, per_prompt_token=12e-6)


def estimated() -> StepTime:
    """Anew each time: what an estimate remembers is part of the cost."""
    return EstimatedStepTime(load_decoder("qwen2.5-7b"), roof_of("910B2"))


@dataclass(frozen=True, kw_only=True)
class Case:
    """A server and its traffic; outputs are geometric, prompts 100 to 500 tokens after one of four
    shared prefixes of 128."""

    name: str
    slots: int
    output: int
    blocks_per_slot: int
    arrivals: Arrivals
    batching: str = "chunked"
    step_time: Callable[[], StepTime] = lambda: GIVEN
    requests: int = 6000

    def parts(self) -> tuple[Traffic, Scheduler]:
        """What `simulate` takes."""
        traffic = Traffic(
            requests=self.requests,
            arrivals=self.arrivals,
            prompt=parse_lengths("uniform:100-500"),
            output=parse_lengths(f"geometric:{self.output}"),
            prefixes=4,
            prefix_tokens=128,
            seed=1,
        )
        scheduler = Scheduler(
            batching=self.batching,
            slots=self.slots,
            cache=CacheRules(blocks=self.blocks_per_slot * self.slots, watermark=0.01),
            max_waiting=4 * self.slots,
            buckets=BucketPlan.up_to(self.slots),
        )
        return traffic, scheduler


def _closed(slots: int) -> ClosedLoop:
    return ClosedLoop(concurrency=2 * slots)


CASES = (
    Case(name="8 slots", slots=8, output=256, blocks_per_slot=48, arrivals=_closed(8)),
    Case(name="64 slots", slots=64, output=256, blocks_per_slot=48, arrivals=_closed(64)),
    Case(
        name="64 slots, prefill alone",
        slots=64,
        output=256,
        blocks_per_slot=48,
        arrivals=_closed(64),
        batching="continuous",
    ),
    Case(
        name="64 slots, cache too small",
        slots=64,
        output=256,
        blocks_per_slot=28,
        arrivals=_closed(64),
    ),
    Case(
        name="64 slots, Poisson",
        slots=64,
        output=256,
        blocks_per_slot=48,
        arrivals=Poisson(rate=20.0),
    ),
    Case(
        name="64 slots, estimated steps",
        slots=64,
        output=256,
        blocks_per_slot=48,
        arrivals=_closed(64),
        step_time=estimated,
    ),
    Case(
        name="64 slots, output 1024",
        slots=64,
        output=1024,
        blocks_per_slot=96,
        arrivals=_closed(64),
    ),
    Case(
        name="256 slots, output 1024",
        slots=256,
        output=1024,
        blocks_per_slot=96,
        arrivals=_closed(256),
    ),
)


@dataclass(frozen=True, kw_only=True)
class Speed:
    """Of one case; per second of CPU time."""

    name: str
    steps: int
    tokens: int
    mean_batch: float
    preemptions: int
    prefix_hits: float
    steps_per_second: float
    steps_per_second_with_figures: float


def measure(case: Case, rounds: int) -> Speed:
    """The median of `rounds`."""
    traffic, scheduler = case.parts()
    workload = traffic.sample()
    result = simulate(workload, scheduler, case.step_time())
    schedule = _seconds(lambda: Engine(workload, scheduler, case.step_time()).run(), rounds)
    everything = _seconds(lambda: simulate(workload, scheduler, case.step_time()), rounds)
    return Speed(
        name=case.name,
        steps=result.steps,
        tokens=result.metrics.output_tokens,
        mean_batch=result.mean_batch,
        preemptions=result.cache.preemptions,
        prefix_hits=result.cache.hit_share,
        steps_per_second=result.steps / schedule,
        steps_per_second_with_figures=result.steps / everything,
    )


def _seconds(run: Callable[[], object], rounds: int) -> float:
    taken = []
    for _ in range(rounds):
        start = time.process_time()
        run()
        taken.append(time.process_time() - start)
    return statistics.median(taken)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5, help="of each case (default: 5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures")
    arguments = parser.parse_args()
    speeds = [measure(case, arguments.rounds) for case in CASES]
    table = Table(title="decode steps simulated per second of CPU time")
    heads = ("case", "steps", "mean batch", "preempted", "hits", "schedule", "with figures")
    for head in heads:
        table.add_column(head, justify="left" if head == "case" else "right")
    for s in speeds:
        table.add_row(
            s.name,
            f"{s.steps:,}",
            f"{s.mean_batch:.1f}",
            f"{s.preemptions:,}",
            f"{s.prefix_hits:.0%}",
            f"{s.steps_per_second:,.0f}",
            f"{s.steps_per_second_with_figures:,.0f}",
        )
    Console().print(table)
    if arguments.json is not None:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        temporary = arguments.json.with_name(f".{arguments.json.name}.{os.getpid()}")
        temporary.write_text(json.dumps([asdict(s) for s in speeds], indent=2) + "\n")
        temporary.replace(arguments.json)


if __name__ == "__main__":
    main()
