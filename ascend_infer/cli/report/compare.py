"""`ascend-infer report compare`: two sides, kernel by kernel."""

from __future__ import annotations

import argparse
from pathlib import Path

from ascend_infer.cli import options
from ascend_infer.cli.report.inputs import PATH_HELP, add_inputs, measurements
from kernels_npu.errors import UsageError


def add_command(reports: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its options."""
    parser = reports.add_parser(
        "compare",
        help="which kernels became faster or slower",
        description="Match the kernels of two sides and give each ratio with the interval that "
        "its noise leaves open. Measured launches are compared by time, simulated ones by bytes, "
        "instructions and cycles. `report compare A B`, or several runs of each side: `report "
        "compare A1 A2 A3 --with B1 B2 B3`. Exit codes: 0 compared, 1 a part is damaged or not "
        "readable (the rest is shown), 2 wrong use.",
    )
    parser.add_argument("paths", type=Path, nargs="+", metavar="PATH", help=PATH_HELP)
    parser.add_argument(
        "--with",
        dest="after",
        type=Path,
        nargs="+",
        metavar="PATH",
        help="the other side; without it, exactly two paths are compared",
    )
    parser.add_argument(
        "--top", type=options.integer(1), default=20, help="rows of each table (default: 20)"
    )
    add_inputs(parser)
    options.add_common(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Compare and print; 1 when figures were lost."""
    from ascend_infer.cli import output
    from ascend_infer.cli.report.comparison_json import comparison_json
    from ascend_infer.cli.report.comparison_tables import print_comparison
    from profiling.comparison import compare

    before, after = _sides(arguments)
    comparison = compare(measurements(before, arguments), measurements(after, arguments))
    if arguments.json:
        output.print_json(comparison_json(comparison))
    else:
        print_comparison(comparison, top=arguments.top)
    return 1 if comparison.damaged else 0


def _sides(arguments: argparse.Namespace) -> tuple[list[Path], list[Path]]:
    paths: list[Path] = arguments.paths
    if arguments.after is not None:
        return paths, arguments.after
    if len(paths) != 2:
        raise UsageError(
            "AI-CLI-006",
            f"{len(paths)} paths without --with",
            rule="two paths are one side each; of more it must be said which belong together",
            fix="write report compare A1 A2 A3 --with B1 B2 B3",
        )
    return paths[:1], paths[1:]
