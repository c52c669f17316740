"""`ascend-infer bench op`: what the operators cost on a device."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from ascend_infer import devices
from ascend_infer.cli import options

if TYPE_CHECKING:
    from ascend_infer.op_benchmark import OpBenchmark, OpFigures


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its options."""
    parser = commands.add_parser(
        "bench",
        help="measure operators",
        description="op: time of every operator on a device, beside that of a plain copy; bytes "
        "and modelled cycles on the simulated NPU, which has no time.",
    )
    parser.add_argument("scope", choices=("op",))
    options.add_device(parser)
    group = parser.add_argument_group("extent")
    group.add_argument("--op", action="append", default=[], help="only this operator; repeatable")
    group.add_argument(
        "--max-bytes",
        type=options.integer(1),
        help="leave out workloads that move more (default: 4 MiB on sim, no limit elsewhere)",
    )
    mode = group.add_mutually_exclusive_group()
    mode.add_argument(
        "--graph", dest="mode", action="store_const", const="graph", help="time replays of graphs"
    )
    mode.add_argument(
        "--eager", dest="mode", action="store_const", const="eager", help="time calls (default)"
    )
    group = parser.add_argument_group("method")
    group.add_argument(
        "--repetitions", type=options.integer(1), default=100, help="samples (default: 100)"
    )
    group.add_argument(
        "--warm-cache",
        action="store_true",
        help="do not empty the L2 cache between samples: another measurement, and it says so",
    )
    group.add_argument(
        "--ledger", type=Path, metavar="FILE", help="append the figures with their conditions"
    )
    options.add_common(parser)
    parser.set_defaults(run=run, mode="eager")


def run(arguments: argparse.Namespace) -> int:
    """Measure and print."""
    devices.require_torch()
    from ascend_infer.cli import output, progress
    from ascend_infer.op_benchmark import append_to_ledger, benchmark_ops, known_conditions
    from ascend_infer.verification.ops import OpsOptions
    from profiling.benchmark import BenchOptions

    device = devices.open_device(arguments.device)
    limit = arguments.max_bytes or (4 << 20 if device.name == "sim" else 1 << 62)
    bench = BenchOptions(repetitions=arguments.repetitions)
    if arguments.warm_cache:
        bench = dataclasses.replace(bench, flush_bytes=0)
    with progress.bar(enabled=not arguments.json) as reporter:
        found = benchmark_ops(
            device,
            OpsOptions(names=tuple(arguments.op), max_bytes=limit),
            arguments.mode,
            bench,
            reporter,
        )
    conditions = known_conditions(device, found.mode, bench)
    if arguments.ledger is not None:
        append_to_ledger(arguments.ledger, found, conditions)
    if arguments.json:
        output.print_json(found.to_dict() | {"conditions": conditions.to_dict()})
        return 0
    if conditions.headline:
        print(conditions.headline)
    _print(found)
    return 0


def _print(found: OpBenchmark) -> None:
    from ascend_infer.cli import output

    timed = found.copy_bandwidth is not None
    columns: tuple[str, ...] = ("operator", "workload", "dtype", "runs as")
    columns += ("median us", "GB/s", "of a copy") if timed else ("bytes", "of those needed")
    note = "bytes: simulated; no time on a simulated device"
    if found.copy_bandwidth is not None:
        note = f"a plain copy moves {found.copy_bandwidth / 1e9:.0f} GB/s in the same run"
    output.print_table(
        f"operators on {found.device}, {found.mode}",
        (*columns, "evidence"),
        [_row(figure) for figure in found.figures],
        note=note,
    )
    for figure in found.figures:
        for warning in () if figure.timing is None else figure.timing.warnings:
            print(f"{figure.operator} {figure.workload} {figure.dtype}: {warning}")


def _row(figure: OpFigures) -> tuple[str, ...]:
    cells: list[str] = [figure.operator, figure.workload, figure.dtype, figure.implementation]
    if figure.timing is not None and figure.bandwidth is not None:
        cells.append(f"{figure.timing.samples.median:.2f}")
        cells.append(f"{figure.bandwidth / 1e9:.0f}")
        cells.append(f"{figure.share_of_copy:.0%}")
    if figure.moved_bytes is not None:
        cells.append(f"{figure.moved_bytes:,}")
        cells.append(f"{figure.moved_bytes / figure.min_bytes:.2f}")
    return (*cells, str(figure.evidence))
