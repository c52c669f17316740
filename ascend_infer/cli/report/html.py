"""`ascend-infer report html`: a profile as one file for a browser and for paper."""

from __future__ import annotations

import argparse
from pathlib import Path

from ascend_infer.cli import options


def add_command(reports: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its options."""
    parser = reports.add_parser(
        "html",
        help="write a page: summary, roofline, timeline, blocks, tables",
        description="Write what a profile says as one HTML file that loads nothing. Exit codes: "
        "0 written, 1 written, but a part of the profile is damaged or not readable, 2 wrong use.",
    )
    parser.add_argument(
        "path", type=Path, metavar="PATH", help="a profiler's file, folder or archive"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("report.html"),
        metavar="FILE",
        help="where to write it (default: report.html)",
    )
    parser.add_argument(
        "--chip",
        metavar="NAME",
        help="whose roofline to draw, such as Ascend910B2 (default: the one that a manifest names)",
    )
    parser.add_argument(
        "--rows", type=options.integer(1), default=200, help="rows of each table (default: 200)"
    )
    parser.add_argument(
        "--details",
        type=options.integer(0),
        default=12,
        help="kernels with a section of their own (default: 12)",
    )
    parser.add_argument(
        "--conditions",
        type=Path,
        metavar="FILE",
        help="JSON object with those of the twelve conditions that the files do not tell",
    )
    options.add_common(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the page; 1 when figures were lost."""
    from ascend_infer.cli import output, progress
    from profiling import conditions, read_profile
    from profiling.devices import get_chip
    from profiling.provenance import conditions_of
    from profiling.report import ReportOptions, build, write

    chip = None if arguments.chip is None else get_chip(arguments.chip)
    given = conditions.Conditions()
    if arguments.conditions is not None:
        given = conditions.read(arguments.conditions)
    shown = ReportOptions(rows=arguments.rows, details=arguments.details)
    with progress.bar(enabled=not arguments.json) as reporter:
        reporter.stage("read the files")
        profile = read_profile(arguments.path)
        known = conditions_of(
            profile,
            aggregation="sums and shares of all launches, none left out",
            baseline="nothing is compared",
        )
        reporter.stage("draw and write the page")
        page = build(profile, known.or_else(given), chip, shown)
        size = write(page, arguments.output)
    summary = page.sections[0].sentences
    if arguments.json:
        output.print_json(
            {
                "headline": page.headline,
                "report": str(arguments.output),
                "bytes": size,
                "damaged": profile.damaged,
                "summary": [sentence.to_dict() for sentence in summary],
                "notes": [note.to_dict() for note in profile.notes],
            }
        )
    else:
        if page.headline:
            print(page.headline)
        for sentence in summary:
            print(f"{'!' if sentence.flagged else '-'} {sentence.topic}: {sentence.text}")
        for note in profile.notes:
            print(note)
        print(f"{arguments.output}: {size:,} bytes")
    return 1 if profile.damaged else 0
