"""Options that all reports on measurements share, and what they read."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kernels_npu.errors import UsageError

if TYPE_CHECKING:
    from profiling.comparison import Measurements

PATH_HELP = "a profiler's file, folder or archive, a ledger, or a baseline"


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """How what is read is understood."""
    group = parser.add_argument_group("input")
    group.add_argument(
        "--by",
        choices=("name", "type"),
        default="name",
        help="match tasks of an application by name, shapes and dtypes, or by the type of their "
        "operator alone (default: name)",
    )
    group.add_argument(
        "--metric",
        action="append",
        default=[],
        metavar="NAME",
        help="only figures whose name contains this; repeatable",
    )
    group.add_argument(
        "--conditions",
        type=Path,
        metavar="FILE",
        help="JSON object with those of the twelve conditions that the files do not tell",
    )


def measurements(paths: Sequence[Path], arguments: argparse.Namespace) -> list[Measurements]:
    """What lies at `paths`, reduced to the metrics asked for.

    Raises:
        UsageError: AI-CLI-001, there are figures, and none is called so.
    """
    runs = _loaded(paths, arguments)
    reduced = _reduced(runs, arguments)
    there = sorted({key.metric.name for run in runs for key in run.series})
    if there and not any(run.series for run in reduced):
        raise UsageError(
            "AI-CLI-001",
            f"--metric {' --metric '.join(arguments.metric)}",
            rule=f"the figures of {runs[0].path} are {', '.join(there)}",
            fix="correct --metric, or leave it out",
        )
    return reduced


def judged_runs(paths: Sequence[Path], arguments: argparse.Namespace) -> list[Measurements]:
    """The same for a gate, which fails where the figures are not there."""
    return _reduced(_loaded(paths, arguments), arguments)


def _loaded(paths: Sequence[Path], arguments: argparse.Namespace) -> list[Measurements]:
    """All that lies at `paths`."""
    from profiling.comparison import load

    return load(paths, by_type=arguments.by == "type")


def baseline_runs(path: Path, arguments: argparse.Namespace) -> list[Measurements]:
    """The runs of a baseline, reduced likewise.

    Raises:
        NoBaseline: AI-BENCH-022.
    """
    from profiling.comparison import baseline

    return _reduced(baseline.read(path), arguments)


def _reduced(runs: list[Measurements], arguments: argparse.Namespace) -> list[Measurements]:
    from profiling import conditions

    if arguments.conditions is not None:
        given = conditions.read(arguments.conditions)
        runs = [dataclasses.replace(r, conditions=r.conditions.or_else(given)) for r in runs]
    wanted = [name.lower() for name in arguments.metric]
    if not wanted:
        return runs
    return [
        dataclasses.replace(
            run,
            series={
                key: samples
                for key, samples in run.series.items()
                if any(name in key.metric.name.lower() for name in wanted)
            },
        )
        for run in runs
    ]
