"""`ascend-infer diagnose`: the first cause in CANN's logs, and evidence of captured graphs."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from ascend_infer.cli import options
from kernels_npu.errors import UsageError


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its options."""
    parser = commands.add_parser(
        "diagnose",
        help="find the first cause in CANN's logs",
        usage="ascend-infer diagnose [OPTIONS] LOG... | [OPTIONS] run -- COMMAND",
        description="Read plog files and captured stderr, name the first cause, and count "
        "captured and replayed graphs. `run -- COMMAND` runs a command with the log turned on.",
    )
    parser.add_argument("logs", nargs="+", metavar="LOG", help="files, folders, - or run -- ...")
    parser.add_argument(
        "--expect-captures",
        type=options.integer(0),
        help="fail unless the logs show exactly this many captured graphs",
    )
    parser.add_argument(
        "--log-dir", type=Path, help="run: keep the logs here (default: a temporary folder)"
    )
    options.add_common(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; 1 when the logs hold an error or other captures than expected."""
    if arguments.logs[0] != "run":
        return _report(arguments, arguments.logs, child_status=0)
    command = [part for part in arguments.logs[1:2] if part != "--"] + arguments.logs[2:]
    if not command:
        raise UsageError("AI-CLI-006", "`run` has no command", fix="diagnose run -- python ...")
    from ascend_infer.diagnose.child import run_logged

    with tempfile.TemporaryDirectory(prefix="ascend-log-") as temporary:
        folder = arguments.log_dir or Path(temporary)
        status = run_logged(command, folder)
        return _report(arguments, [str(folder)], child_status=status)


def _report(arguments: argparse.Namespace, paths: list[str], *, child_status: int) -> int:
    from ascend_infer.cli import output, progress
    from ascend_infer.diagnose import diagnose_logs

    read = 0
    with progress.bar(enabled=not arguments.json) as reporter:
        reporter.stage("MiB read")

        def advance(size: int) -> None:
            nonlocal read
            read += size
            reporter.step(read >> 20)

        diagnosis = diagnose_logs(paths, advance)
    captures, cause = diagnosis.captures, diagnosis.cause
    expected: int | None = arguments.expect_captures
    as_expected = expected is None or captures.ended == expected
    passed = cause is None and as_expected and child_status == 0
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
    notes = [
        f"captures begun {captures.begun}, ended {captures.ended}, replays {captures.executed}, "
        f"models {len(captures.model_ids)}, streams {len(captures.streams)}"
    ]
    if not as_expected:
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
    output.print_table(
        "ascend-infer diagnose",
        ("error", "role", "count", "first at", "meaning"),
        [
            (g.explanation.key, g.role.value, g.count, g.where, g.explanation.meaning)
            for g in diagnosis.groups
        ],
        note="\n".join(notes),
    )
    return 0 if passed else 1
