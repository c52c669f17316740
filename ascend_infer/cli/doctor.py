"""`ascend-infer doctor`: what this installation can do, why not, and what to change."""

from __future__ import annotations

import argparse

from ascend_infer.cli import options


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its options."""
    parser = commands.add_parser(
        "doctor",
        help="check the environment",
        description="Check NPU, driver, firmware, CANN, versions, TileLang's dialect, environment "
        "variables and folders. Every probe runs in a process of its own with a time limit, so "
        "that a broken package cannot stop the others. Exit code 0: a device works and nothing "
        "that is installed is broken.",
    )
    parser.add_argument(
        "--timeout", type=options.integer(1), default=60, help="seconds per probe (default: 60)"
    )
    options.add_common(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; 1 when no device is usable or a package is broken."""
    from ascend_infer.cli import output
    from ascend_infer.doctor.diagnosis import diagnose

    diagnosis = diagnose(timeout_s=arguments.timeout)
    if arguments.json:
        output.print_json(diagnosis.to_dict())
    else:
        output.print_table(
            "ascend-infer doctor",
            ("check", "verdict", "evidence", "what to do"),
            [(f.name, f.verdict, f.evidence, f.advice) for f in diagnosis.findings],
            note=diagnosis.summary,
        )
    return 0 if diagnosis.passed else 1
