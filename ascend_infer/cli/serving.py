"""`ascend-infer simulate-serving`: schedules compared on the same traffic, event by event."""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ascend_infer.cli import serving_options, serving_step
from kernels_npu.errors import UsageError

if TYPE_CHECKING:
    from ascend_infer.serving_simulation import (
        Scheduler,
        Slo,
        Workload,
    )
    from ascend_infer.serving_simulation.arrivals import Arrivals


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its options."""
    parser = commands.add_parser(
        "simulate-serving",
        help="simulate the scheduling of a server",
        description="Serve traffic with static, continuous and chunked batching, event by event: "
        "TTFT, TPOT, ITL, throughput, goodput, slots, KV cache, preemptions. Schedules are "
        "`simulated`, times `modelled`: no figure is of a device.",
    )
    serving_options.add(parser)
    serving_step.add(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Simulate and print; 1 when fewer requests are good than asked for."""
    from ascend_infer.cli import output, progress, serving_tables
    from ascend_infer.plotting import require_plotting
    from ascend_infer.serving_simulation import simulate

    _settle(arguments)
    if arguments.plot is not None:
        require_plotting(arguments.plot)
    schedulers, slo, least = _schedulers(arguments), _slo(arguments), _least_share(arguments)
    step_time, workload = serving_step.step_time(arguments), _workload(arguments)
    with progress.bar(enabled=not arguments.json) as reporter:
        results = [
            simulate(workload, scheduler, step_time, slo=slo, reporter=reporter)
            for scheduler in schedulers
        ]
    if arguments.plot is not None:
        from ascend_infer.serving_simulation.plot import plot

        plot(results, arguments.plot)
    passed = all(result.metrics.good_share >= least for result in results)
    if arguments.json:
        found = serving_tables.as_json(results, workload, passed=passed)
        output.print_json(found | {"model": serving_step.described(arguments)})
    else:
        serving_tables.show(results, workload, slo)
    return 0 if passed else 1


def _settle(arguments: argparse.Namespace) -> None:
    """Fill in what was not given: from model and chip, the preset, else from the defaults."""
    from ascend_infer.serving_simulation.presets import DEFAULTS, PRESETS

    _refuse_ignored(arguments)
    serving_step.refuse_ignored(arguments)
    blocks = arguments.kv_blocks
    chosen = {**DEFAULTS, **(PRESETS[arguments.preset] if arguments.preset else {})}
    for name, value in chosen.items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, value)
    if arguments.model is not None:
        arguments.kv_blocks = blocks or serving_step.blocks(arguments)


#: Arrivals -> the options that describe them.
_OF_ARRIVALS = {
    "poisson": ("rate",),
    "closed": ("concurrency", "think_ms"),
    "bursts": ("burst_size", "burst_every_s"),
}
_OF_DISTRIBUTIONS = (
    "requests",
    "arrivals",
    "prompt",
    "output",
    "prefixes",
    "prefix_tokens",
    "seed",
)


def _refuse_ignored(arguments: argparse.Namespace) -> None:
    """Options that say nothing beside what else is given."""
    for beside, names in _without_effect(arguments):
        given = [name for name in names if getattr(arguments, name) is not None]
        if given:
            shown = ", ".join("--" + name.replace("_", "-") for name in given)
            raise UsageError(
                "AI-CLI-003",
                f"{shown} has no effect with {beside}",
                rule="an option that has no effect is a mistake",
                fix=f"leave out {shown}",
            )


def _without_effect(arguments: argparse.Namespace) -> Iterator[tuple[str, Iterable[str]]]:
    from ascend_infer.serving_simulation.presets import DEFAULTS, PRESETS

    preset = PRESETS[arguments.preset] if arguments.preset else {}
    arrivals = arguments.arrivals or preset.get("arrivals", DEFAULTS["arrivals"])
    if arguments.trace is not None:
        yield "--trace", itertools.chain(_OF_DISTRIBUTIONS, *_OF_ARRIVALS.values())
    for kind, names in _OF_ARRIVALS.items():
        if kind != arrivals:
            yield f"--arrivals {arrivals}", names
    if arguments.buckets is None:
        yield "steps that have no graph, which --buckets gives them", ("eager_ms",)


def _workload(arguments: argparse.Namespace) -> Workload:
    from ascend_infer.serving_simulation import Traffic, parse_lengths, read_trace

    if arguments.trace is not None:
        return read_trace(arguments.trace)
    return Traffic(
        requests=arguments.requests,
        arrivals=_arrivals(arguments),
        prompt=parse_lengths(arguments.prompt),
        output=parse_lengths(arguments.output),
        prefixes=arguments.prefixes,
        prefix_tokens=arguments.prefix_tokens,
        seed=arguments.seed,
    ).sample()


def _arrivals(arguments: argparse.Namespace) -> Arrivals:
    from ascend_infer.serving_simulation import AtOnce, Bursts, ClosedLoop, Poisson

    if arguments.arrivals == "closed":
        clients = arguments.concurrency or max(arguments.slots)
        return ClosedLoop(concurrency=clients, think=arguments.think_ms / 1e3)
    if arguments.arrivals == "bursts":
        return Bursts(size=arguments.burst_size, every=arguments.burst_every_s)
    if arguments.arrivals == "poisson":
        if arguments.rate is None:
            raise UsageError(
                "AI-CLI-003",
                "--arrivals poisson without --rate",
                rule="a Poisson process has a rate",
                fix="add --rate with requests per second",
            )
        return Poisson(rate=arguments.rate)
    return AtOnce()


def _schedulers(arguments: argparse.Namespace) -> list[Scheduler]:
    from ascend_infer.serving_simulation import CacheRules, Scheduler
    from graphs.buckets import BucketPlan

    sizes = arguments.buckets
    cache = CacheRules(
        blocks=arguments.kv_blocks,
        block_size=arguments.block_size,
        watermark=arguments.watermark,
        reserve_output=arguments.reserve_output,
        share_prefixes=not arguments.no_prefix_cache,
    )
    names = dict.fromkeys(arguments.batching.replace(",", " ").split())
    if not names:
        raise UsageError("AI-CLI-006", "--batching is empty", fix="--batching continuous")
    return [
        Scheduler(
            batching=name,
            slots=slots,
            token_budget=arguments.token_budget,
            max_waiting=arguments.max_waiting,
            cache=cache,
            buckets=None if sizes is None else BucketPlan.of(sizes, max_batch=slots),
            eager_seconds=arguments.eager_ms / 1e3,
        )
        for name, slots in itertools.product(names, dict.fromkeys(arguments.slots))
    ]


def _slo(arguments: argparse.Namespace) -> Slo:
    from ascend_infer.serving_simulation import Slo

    limits: dict[str, Any] = {}
    for name in ("ttft", "tpot", "e2e"):
        value = getattr(arguments, f"slo_{name}_ms")
        if value is not None and not (math.isfinite(value) and value > 0):
            raise UsageError(
                "AI-CLI-001",
                f"--slo-{name}-ms {value}",
                rule="a limit is a positive number of milliseconds",
                fix=f"for example --slo-{name}-ms 500",
            )
        limits[name] = None if value is None else value / 1e3
    return Slo(**limits)


def _least_share(arguments: argparse.Namespace) -> float:
    least: float = 0.0 if arguments.min_good_share is None else arguments.min_good_share
    if not 0 <= least <= 1:
        raise UsageError(
            "AI-CLI-001",
            f"--min-good-share {least}",
            rule="a share is from 0 to 1",
            fix="for example --min-good-share 0.99",
        )
    return least
