"""`ascend-infer profile op|simulator|app`: collect with msprof what a command launches."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ascend_infer.cli import options
from ascend_infer.cli.profile_request import (
    PREFIX,
    TIME_LIMIT_S,
    limit_of,
    operator_of,
    request_of,
)

if TYPE_CHECKING:
    from profiling.collect import Option, Request
    from profiling.collect.collection import Collection

_HELP = {
    "op": "collect single kernels on a device with msprof op",
    "simulator": "collect single kernels on the vendor's simulator with msprof op simulator",
    "app": "collect all of an application with msprof",
}
_EXIT = (
    "What is wrong with the options is found before anything starts. Exit codes: 0 collected, 1 "
    "the run failed or left no data, or only some (it is kept), 2 wrong use or no msprof."
)
#: Modes in which one of our operators can be profiled by itself.
_OF_KERNELS = ("op", "simulator")
#: Kernels and operators to show.
_TOP = 10
#: What `selection` makes of options that are left out.
_DEFAULTS = {"kernel-name": "our kernels, or the operator's", "launch-count": "100, with --op 1"}


def add_commands(group: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare one command per mode, with the options of its tool."""
    from profiling.collect import MODES

    for mode in MODES.values():
        parser = group.add_parser(
            mode.name,
            # An abbreviation may be an option of the command.
            allow_abbrev=False,
            help=_HELP[mode.name],
            description=f"{_HELP[mode.name][0].upper()}{_HELP[mode.name][1:]}. {_EXIT}",
            usage=f"ascend-infer profile {mode.name} [OPTIONS] [-- COMMAND ARGS]",
        )
        ours = parser.add_argument_group("collection")
        ours.add_argument(
            "--output",
            type=Path,
            default=Path("msprof"),
            metavar="FOLDER",
            help="each collection gets a folder of its own below it (default: msprof)",
        )
        ours.add_argument(
            "--time-limit",
            type=options.integer(1),
            metavar="SECONDS",
            help=f"end the collection after so long (default: {TIME_LIMIT_S}, and later than the "
            "tool's own limit)",
        )
        ours.add_argument(
            "--dry-run", action="store_true", help="print the command; needs nothing installed"
        )
        if mode.name in _OF_KERNELS:
            _add_operator(parser)
        if mode.name == "op":
            ours.add_argument(
                "--soc",
                metavar="NAME",
                help="chip for which options are checked (default: what npu-smi says)",
            )
        theirs = parser.add_argument_group("options of the profiler")
        for option in mode.options:
            _add_option(theirs, option)
        options.add_common(parser)
        parser.add_argument(
            "command", nargs=argparse.REMAINDER, metavar="COMMAND", help="what is profiled"
        )
        parser.set_defaults(run=run, mode=mode.name)


def _add_operator(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("one of our operators in place of COMMAND")
    group.add_argument("--op", metavar="NAME", help="operator, such as paged_decode_attention")
    group.add_argument("--case", metavar="NAME", help="one of its workloads (default: the first)")
    group.add_argument(
        "--dtype",
        choices=("float16", "bfloat16"),
        default="float16",
        help="of its tensors (default: float16)",
    )
    options.add_device(group, default="npu")


def _add_option(group: argparse._ArgumentGroup, option: Option) -> None:
    flags = [option.flag, *(["--soc"] if option.name == "soc-version" else [])]
    group.add_argument(
        *flags, dest=PREFIX + option.name, metavar=option.value.metavar, help=_help_of(option)
    )


def _help_of(option: Option) -> str:
    text = f"{option.meaning}: {option.value.rule}"
    if option.chips_in_words:
        text += f"; {option.chips_in_words} only"
    if option.since:
        text += f"; since msOpProf {option.since}"
    default = _DEFAULTS.get(option.name) or option.given or option.default
    return text + (f" (default: {default})" if default else "")


def run(arguments: argparse.Namespace) -> int:
    """Collect, and show what there is; 1 when it is not what was asked for."""
    operator = operator_of(arguments)
    request = request_of(arguments, operator)
    if arguments.dry_run:
        return _dry_run(request, as_json=arguments.json)
    conditions = operator.conditions() if operator else {}
    collection = _collect(request, limit_of(arguments.time_limit, request), conditions)
    if arguments.json:
        from ascend_infer.cli import output

        output.print_json(_as_json(collection))
    else:
        _print(collection)
    return 1 if collection.error else 0


def _collect(request: Request, limit_s: int, conditions: dict[str, str]) -> Collection:
    """Run it, and say where its data are, also when it is interrupted."""
    from ascend_infer.collecting import host_versions
    from profiling.collect import printed
    from profiling.collect.collection import Surroundings, collect

    started: list[Path] = []

    def on_start(folder: Path, command: Sequence[str]) -> None:
        started.append(folder)
        print(f"collecting into {folder}: {printed(command)}", file=sys.stderr, flush=True)

    around = Surroundings(
        limit_s=limit_s, versions=host_versions(), settings=conditions, on_start=on_start
    )
    try:
        return collect(request, around)
    except KeyboardInterrupt:
        if started:
            print(f"\nwhat was collected until now is in {started[0]}", file=sys.stderr)
        raise


def _dry_run(request: Request, *, as_json: bool) -> int:
    from ascend_infer.cli import output
    from profiling.collect import argument_list, check, printed, words_of

    warnings = check(request)
    command = argument_list(request, words_of(request.mode), request.output)
    if as_json:
        output.print_json({"command": command, "warnings": warnings})
        return 0
    print(printed(command))
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    return 0


def _as_json(collection: Collection) -> dict[str, Any]:
    from ascend_infer.cli.profile_json import as_json

    profile, error = collection.profile, collection.error
    return {
        "folder": str(collection.folder),
        "manifest": collection.manifest.to_dict(),
        "profile": None if profile is None else as_json(profile, top=_TOP),
        "warnings": list(collection.warnings),
        "error": None if error is None else error.to_dict(),
    }


def _print(collection: Collection) -> None:
    from ascend_infer.cli import output
    from ascend_infer.cli.profile_tables import ProfilePrinter

    if collection.profile is not None:
        ProfilePrinter(collection.profile, top=_TOP, blocks=False).print_summary()
    for warning in collection.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    if collection.error is not None:
        output.print_error(collection.error, as_json=False)
    else:
        print(f"more: ascend-infer profile show {collection.folder}")
