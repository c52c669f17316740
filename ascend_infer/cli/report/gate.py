"""`ascend-infer report baseline` and `report gate`: a comparison that a build may fail over."""

from __future__ import annotations

import argparse
import datetime
import math
from pathlib import Path

from ascend_infer.cli import options
from ascend_infer.cli.report.inputs import (
    PATH_HELP,
    add_inputs,
    baseline_runs,
    judged_runs,
    measurements,
)
from kernels_npu.errors import UsageError


def add_commands(reports: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare both commands and their options."""
    parser = reports.add_parser(
        "baseline",
        help="keep the figures of a good run",
        description="Write the samples of all runs to a file that `report gate` compares with.",
    )
    parser.add_argument("paths", type=Path, nargs="+", metavar="PATH", help=PATH_HELP)
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="where to write it"
    )
    add_inputs(parser)
    options.add_common(parser)
    parser.set_defaults(run=run_baseline)

    parser = reports.add_parser(
        "gate",
        help="fail when a kernel became worse than the baseline",
        description="Compare runs with a baseline. Exit codes: 0 passed; 1 a figure is worse by "
        "more than the threshold and its noise, or by more than the threshold with too few "
        "repetitions to know the noise; a kernel is gone, a figure has another evidence level, "
        "files are damaged, nothing could be compared, or there is no baseline; 2 wrong use.",
    )
    parser.add_argument("paths", type=Path, nargs="+", metavar="PATH", help=PATH_HELP)
    parser.add_argument(
        "--baseline", type=Path, required=True, metavar="FILE", help="of `report baseline`"
    )
    parser.add_argument(
        "--threshold",
        type=_share,
        default=0.05,
        metavar="PERCENT",
        help="how much worse a figure may get: 5%% or 0.05 (default: 5%%)",
    )
    parser.add_argument(
        "--top", type=options.integer(1), default=20, help="rows of each table (default: 20)"
    )
    add_inputs(parser)
    options.add_common(parser)
    parser.set_defaults(run=run_gate)


def run_baseline(arguments: argparse.Namespace) -> int:
    """Write the baseline; 1 when figures were lost, and then nothing is written."""
    from ascend_infer.cli import output
    from profiling.comparison import baseline
    from profiling.conditions import headline_of
    from profiling.records import Severity

    runs = measurements(arguments.paths, arguments)
    lost = [note for run in runs for note in run.notes if note.severity is Severity.DAMAGE]
    kept = sum(len(run.series) for run in runs)
    if lost or not kept:
        raise UsageError(
            "AI-BENCH-025",
            f"{kept} figures of kernels in {len(runs)} runs"
            + "".join(f"; {note.what} at {note.where}" for note in lost[:3]),
            rule="a baseline is of whole files: what is lost in it is not missed later",
            fix="collect again, or name only the files that are whole",
        )
    when = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    baseline.write(arguments.output, runs, when)
    written = {"baseline": str(arguments.output), "runs": len(runs), "figures": kept, "when": when}
    headline = headline_of([run.conditions for run in runs])
    if arguments.json:
        output.print_json({**written, "headline": headline})
        return 0
    if headline:
        print(headline)
    print(f"{arguments.output}: {kept} figures of kernels from {len(runs)} runs")
    return 0


def run_gate(arguments: argparse.Namespace) -> int:
    """Judge and print; 1 when the gate has failed."""
    from ascend_infer.cli import output
    from ascend_infer.cli.report.comparison_json import gate_json
    from ascend_infer.cli.report.gate_tables import print_gate
    from profiling.comparison import compare, judge

    before = baseline_runs(arguments.baseline, arguments)
    comparison = compare(before, judged_runs(arguments.paths, arguments))
    gate = judge(comparison, arguments.threshold)
    if arguments.json:
        output.print_json(gate_json(gate))
    else:
        print_gate(gate, top=arguments.top)
    return 0 if gate.passed else 1


def _share(text: str) -> float:
    share = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    if not (math.isfinite(share) and share >= 0):
        raise argparse.ArgumentTypeError(f"{text} is not a share of zero or more")
    if share > 1 and not text.endswith("%"):
        raise argparse.ArgumentTypeError(f"{text} is {share:.0%}; write {text}% for a percentage")
    return share


_share.__name__ = "percentage"
