"""`ascend-infer report`: profiles beside each other, as a check for CI, and as a page."""

from __future__ import annotations

import argparse

from ascend_infer.cli.report import compare, gate, html


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and the reports it can make."""
    parser = commands.add_parser(
        "report",
        help="compare profiles, gate a build, write a page",
        description="Reports on what profilers, the simulated NPU and `bench` have written.",
    )
    reports = parser.add_subparsers(title="reports", metavar="WHAT", required=True)
    compare.add_command(reports)
    gate.add_commands(reports)
    html.add_command(reports)
