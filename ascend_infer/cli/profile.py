"""`ascend-infer profile`: collect with a profiler, and what a profiler measured."""

from __future__ import annotations

import argparse
from pathlib import Path

from ascend_infer.cli import options, profile_collect


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command, its subcommands and their options."""
    group = commands.add_parser(
        "profile", help="collect with msprof, and read profiler files"
    ).add_subparsers(title="commands", metavar="COMMAND", required=True)
    profile_collect.add_commands(group)
    show = group.add_parser(
        "show",
        help="what a profiler's files say",
        description="Read what msprof op, msprof or torch_npu.profiler wrote: a file, a folder or "
        "a zip archive. Exit codes: 0 read, 1 a part is damaged or not readable (the rest is "
        "shown), 2 nothing there is a profiler's.",
    )
    show.add_argument("path", type=Path, metavar="PATH", help="OPPROF_..., PROF_..., *_ascend_pt")
    show.add_argument(
        "--top", type=options.integer(1), default=10, help="operators and kernels (default: 10)"
    )
    show.add_argument("--blocks", action="store_true", help="one row per core of each kernel, too")
    show.add_argument(
        "--chip",
        metavar="NAME",
        help="chip of the roofline and core usage, such as 910B3 (default: the simulated one, if "
        "the profile names it)",
    )
    show.add_argument(
        "--eager",
        type=Path,
        metavar="PATH",
        help="profile of the same steps without graphs: what the graph saves",
    )
    options.add_common(show)
    show.set_defaults(run=run_show)


def run_show(arguments: argparse.Namespace) -> int:
    """Run `profile show`; 1 when figures were lost."""
    from ascend_infer.cli import output
    from ascend_infer.cli.profile_json import as_json
    from ascend_infer.cli.profile_tables import ProfilePrinter
    from ascend_infer.operator_formulas import formula_sentences
    from profiling import read_profile
    from profiling.analysis import chip_of, eager_against_graph, profile_sentences
    from profiling.devices import get_chip

    named = None if arguments.chip is None else get_chip(arguments.chip)
    eager = None if arguments.eager is None else read_profile(arguments.eager)
    profile = read_profile(arguments.path)
    chip = named or chip_of(profile)
    sentences = [*profile_sentences(profile), *formula_sentences(profile)]
    if eager is not None:
        sentences.append(eager_against_graph(eager, profile))
    if arguments.json:
        told = as_json(profile, top=arguments.top, chip=chip)
        output.print_json(told | {"sentences": [sentence.to_dict() for sentence in sentences]})
    else:
        printer = ProfilePrinter(
            profile, top=arguments.top, blocks=arguments.blocks, chip=chip, sentences=sentences
        )
        printer.print()
    return 1 if profile.damaged else 0
