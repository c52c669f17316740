"""`ascend-infer diagnose`: the first cause in CANN's logs, and evidence of captured graphs."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ascend_infer.cli import options
from kernels_npu.errors import UsageError

if TYPE_CHECKING:
    from ascend_infer.diagnose import LogDiagnosis

#: What a shell reports for a process that SIGINT ended.
_INTERRUPTED = 130
#: Processes that read one log.
_MOST_WORKERS = 4
_USAGE = "ascend-infer diagnose [OPTIONS] LOG... | [OPTIONS] run [OPTIONS] -- COMMAND"


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its options."""
    parser = commands.add_parser(
        "diagnose",
        help="find the first cause in CANN's logs",
        usage=_USAGE,
        description="Read plog files and captured stderr, name the first cause, and count "
        "captured and replayed graphs. `run -- COMMAND` runs a command with the log turned on.",
    )
    _add_options(parser)
    parser.add_argument(
        "logs",
        nargs=argparse.REMAINDER,
        action=_LogsAndCommand,
        metavar="LOG",
        help="files, folders, - or run -- ...",
    )
    parser.set_defaults(run=run, command=[])


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--expect-captures",
        type=options.integer(0),
        help="fail unless the logs show exactly this many captured graphs",
    )
    parser.add_argument(
        "--log-dir",
        type=Path,
        help="run: keep the logs in a new folder here (default: a temporary one, kept on failure)",
    )
    options.add_common(parser)


class _LogsAndCommand(argparse.Action):
    """What follows the first name may be options, too, up to `--`: argparse takes all of it."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Set `logs` and `command`, of which one is empty, and the options among them."""
        dashes = values.index("--") if "--" in values else len(values)
        inner = type(parser)(
            prog=parser.prog, usage=_USAGE, argument_default=argparse.SUPPRESS, add_help=False
        )
        _add_options(inner)
        inner.add_argument("logs", nargs="*", default=[])
        inner.parse_intermixed_args(values[:dashes], namespace)
        names = [*namespace.logs, *values[dashes + 1 :]]
        is_run = namespace.logs[:1] == ["run"]
        namespace.logs = ["run"] if is_run else names
        namespace.command = names[1:] if is_run else []


def run(arguments: argparse.Namespace) -> int:
    """Run the command; 1 when the logs hold an error or other captures than expected."""
    if not arguments.logs:
        raise UsageError("AI-CLI-006", "no log is named", fix="diagnose ~/ascend/log")
    if arguments.logs != ["run"]:
        return _report(arguments, arguments.logs, child_status=0)
    if not arguments.command:
        raise UsageError("AI-CLI-006", "`run` has no command", fix="diagnose run -- python ...")
    from ascend_infer.diagnose.child import log_folder, run_logged

    # With --json standard output is the report's.
    out = sys.stderr.buffer if arguments.json else sys.stdout.buffer
    folder = log_folder(arguments.log_dir)
    try:
        status = run_logged(arguments.command, folder, out=out, err=sys.stderr.buffer)
    except KeyboardInterrupt:  # as a server is ended; its logs are what it was run for
        status = _INTERRUPTED
    result = _report(arguments, [str(folder)], child_status=status)
    if result == 0 and arguments.log_dir is None:
        shutil.rmtree(folder, ignore_errors=True)
    return _INTERRUPTED if status == _INTERRUPTED else result


def _report(arguments: argparse.Namespace, paths: list[str], *, child_status: int) -> int:
    from ascend_infer.cli import output, progress
    from ascend_infer.diagnose import diagnose_logs

    with progress.bar(enabled=not arguments.json) as reporter:
        diagnosis = diagnose_logs(paths, reporter, workers=_workers())
    expected: int | None = arguments.expect_captures
    as_expected = expected is None or diagnosis.captures.ended == expected
    passed = diagnosis.cause is None and as_expected and child_status == 0
    if arguments.json:
        output.print_json(
            {
                "passed": passed,
                "child_status": child_status,
                "expected_captures": expected,
                **diagnosis.to_dict(),
            }
        )
        return 0 if passed else 1
    output.print_table(
        "ascend-infer diagnose",
        ("error", "role", "count", "first at", "meaning"),
        [
            (g.explanation.key, g.role.value, g.count, g.where, g.explanation.meaning)
            for g in diagnosis.groups
        ],
        note="\n".join(_notes(diagnosis, expected, child_status)),
    )
    return 0 if passed else 1


def _workers() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return min(_MOST_WORKERS, len(affinity(0)) if affinity else os.cpu_count() or 1)


def _notes(diagnosis: LogDiagnosis, expected: int | None, child_status: int) -> list[str]:
    captures, cause = diagnosis.captures, diagnosis.cause
    notes = [
        f"captures begun {captures.begun}, ended {captures.ended}, replays {captures.executed}, "
        f"models {len(captures.model_ids)}, streams {len(captures.streams)}"
    ]
    if expected is not None and captures.ended != expected:
        notes.append(f"expected {expected} captures: the log shows {captures.ended}")
    if child_status:
        notes.append(f"the command ended with status {child_status}")
    notes += [f"not read: {name}" for name in diagnosis.unreadable]
    if diagnosis.dropped:
        notes.append(f"{diagnosis.dropped} errors of further kinds are not shown")
    if cause is not None:
        frame = f", from {cause.frame}" if cause.frame else ""
        notes += [
            f"first cause: {cause.explanation.key}: {cause.explanation.meaning}",
            f"  at {cause.where}{frame}: {cause.text}",
            f"  fix: {cause.explanation.fix}",
        ]
        if cause.explanation.source:
            notes.append(f"  source: {cause.explanation.source}")
    return notes
