"""`ascend-infer estimate buckets`: plan capture sizes, or check a list of them."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ascend_infer.cli import options
from ascend_infer.cli.estimate import bucket_options
from kernels_npu.errors import UsageError

if TYPE_CHECKING:
    from graphs.buckets import BucketPlan, PlanWarning
    from graphs.planning import Conditions, GridPlan, ModelShape, PlannedBuckets


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its options."""
    parser = commands.add_parser(
        "buckets",
        help="capture sizes for decode graphs",
        description="The capture sizes that cost a traffic the least for at most --graphs graphs, "
        "or what is wrong with a given list (--sizes, --vllm-defaults): padding, streams, memory, "
        "warnings. The exit code is 1 when batches leave the graph or capture cannot succeed.",
    )
    bucket_options.add(parser)
    options.add_common(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Plan or check; 1 when a batch would leave the graph or capture would fail."""
    from ascend_infer.cli import output
    from ascend_infer.cli.estimate import bucket_tables
    from graphs.planning import assess

    steps = _steps(arguments)
    conditions = _conditions(arguments, steps)
    planned = None
    if arguments.sizes or arguments.vllm_defaults:
        _refuse_planning_options(arguments)
        given = _given(arguments, steps)
    else:
        planned = _planned(arguments, steps, conditions)
        given = planned.plan
    grid = _grid(arguments, given, steps) if arguments.max_blocks else None
    report = assess(given, conditions)
    if grid is not None:
        report = replace(report, warnings=report.warnings + _grid_warnings(grid, conditions))
    if arguments.json:
        output.print_json(bucket_tables.as_json(report, planned, grid))
    else:
        bucket_tables.show(report, planned, grid)
    return 0 if report.passed else 1


def _grid_warnings(grid: GridPlan, conditions: Conditions) -> tuple[PlanWarning, ...]:
    """What the streams of the shapes give rise to, which may be more than the sizes."""
    from graphs.planning import StreamDemand, advice

    demand = StreamDemand(
        topology=conditions.topology,
        num_sizes=len(grid.shapes),
        num_full_sizes=len(grid.shapes),
        limit=conditions.limit,
    )
    return tuple(advice.streams(demand))


def _steps(arguments: argparse.Namespace) -> dict[int, int] | None:
    from graphs.planning import parse_histogram, parse_trace

    if arguments.histogram is not None:
        return parse_histogram(*_text(arguments.histogram, "--histogram"))
    if arguments.trace is not None:
        return parse_trace(*_text(arguments.trace, "--trace"))
    return None


def _text(argument: str, option: str) -> tuple[str, str]:
    """The content of the file that the argument names, or the argument, and how to call it."""
    try:
        path = Path(argument)
        if path.is_file():
            return path.read_text(encoding="utf-8"), argument
    except (OSError, ValueError) as error:  # too long for a path, no text
        if len(argument) < 4096 and "\0" not in argument:
            raise UsageError(
                "AI-CLI-004", f"{option} {argument}: {error}", fix="give a text file or the numbers"
            ) from error
    return argument, option


def _conditions(arguments: argparse.Namespace, steps: dict[int, int] | None) -> Conditions:
    from graphs.planning import CaptureMode, Conditions, StepCost, Topology, stream_limit

    shape = _shape(arguments)
    layers = arguments.layers or (shape.num_layers if shape else 0)
    groups = arguments.comm_groups
    checked = arguments.sizes or arguments.vllm_defaults
    return Conditions(
        steps=steps,
        cost=StepCost(
            fixed=arguments.step_cost, per_row=arguments.row_cost, free_rows=arguments.free_rows
        ),
        limit=stream_limit(arguments.soc),
        topology=Topology(
            mode=CaptureMode(arguments.mode),
            num_layers=layers,
            comm_groups=int(arguments.tensor_parallel > 1) if groups is None else groups,
            aiv=arguments.aiv,
            side_streams=arguments.side_streams,
        ),
        shape=shape,
        context=arguments.context,
        block_size=arguments.block_size,
        dispatch=arguments.dispatch or ("vllm" if checked else "runner"),
    )


def _shape(arguments: argparse.Namespace) -> ModelShape | None:
    from ascend_infer.model.shape import read_shape

    if arguments.model is None:
        if arguments.context is not None:
            raise UsageError(
                "AI-CLI-003",
                "--context without --model",
                rule="what a context costs follows from the model",
                fix="add --model with the model's config.json",
            )
        return None
    return read_shape(
        arguments.model,
        weight_bytes=arguments.weight_bits / 8,
        kv_bytes=arguments.kv_bits / 8,
        tensor_parallel=arguments.tensor_parallel,
    )


def _max_batch(arguments: argparse.Namespace, steps: dict[int, int] | None) -> int:
    known = arguments.max_batch or max(steps or arguments.sizes or (), default=None)
    if known is None:
        raise UsageError(
            "AI-CLI-003",
            "neither --max-batch, --histogram, --trace nor --sizes is given",
            rule="a plan has a largest batch",
            fix="add --max-batch with the scheduler's max_num_seqs",
        )
    return int(known)


def _refuse_planning_options(arguments: argparse.Namespace) -> None:
    """What would be silently ignored when a list is checked."""
    if arguments.multiple_of != 1 or arguments.max_blocks:
        raise UsageError(
            "AI-CLI-003",
            "--multiple-of and --max-blocks shape a plan; --sizes and --vllm-defaults give one",
            fix="leave out one side",
        )


def _given(arguments: argparse.Namespace, steps: dict[int, int] | None) -> BucketPlan:
    from graphs.buckets import BucketPlan
    from graphs.planning import default_sizes

    largest = _max_batch(arguments, steps)
    sizes = arguments.sizes or default_sizes(largest, arguments.vllm_defaults)
    return BucketPlan.of(sizes, max_batch=largest)


def _planned(
    arguments: argparse.Namespace, steps: dict[int, int] | None, conditions: Conditions
) -> PlannedBuckets:
    from graphs.planning import default_sizes, plan_buckets
    from graphs.planning.streams import most_sizes

    largest, multiple = _max_batch(arguments, steps), arguments.multiple_of
    affordable = max(most_sizes(conditions.topology, conditions.limit), 1)
    graphs = arguments.graphs or min(len(default_sizes(largest, "vllm-ascend")), affordable)
    return plan_buckets(
        largest,
        steps,
        max_graphs=graphs,
        cost=conditions.cost,
        candidates=range(multiple, largest + multiple, multiple),
    )


def _grid(
    arguments: argparse.Namespace, plan: BucketPlan, steps: dict[int, int] | None
) -> GridPlan:
    from graphs.planning import parse_joint_trace, plan_grid
    from graphs.planning.grid import joint_of
    from graphs.planning.histogram import uniform

    largest = plan.max_batch or plan.largest
    joint = (
        parse_joint_trace(*_text(arguments.trace, "--trace"))
        if arguments.trace is not None
        else joint_of(steps or uniform(largest), arguments.max_blocks)
    )
    graphs = arguments.graphs or len(plan.sizes)
    return plan_grid(largest, arguments.max_blocks, joint, max_graphs=graphs)
