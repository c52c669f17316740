"""`ascend-infer lint`: static checks of the kernels in files, without executing any."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from ascend_infer.cli import options

if TYPE_CHECKING:
    from kernels_npu.sim.lint import FileReport, KernelReport

#: `--fail-on`: the mildest severity that makes the exit code 1.
FAIL_ON = ("error", "warning", "hint", "never")


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its options."""
    parser = commands.add_parser(
        "lint",
        help="static checks of kernel files",
        description="Check every kernel that the files define, without launching any: what the "
        "device compiler rejects, and what it lets through although the hardware cannot do it. A "
        "file's module level runs with tensors that hold no data; its main part does not run "
        "unless --main is given. The exit code is 1 when a finding is as grave as --fail-on says.",
    )
    parser.add_argument("paths", metavar="FILE|DIR", nargs="+", help="Python files, or folders")
    parser.add_argument(
        "--target",
        choices=("ascendc", "pto"),
        help="check for this back end (default: each kernel's own)",
    )
    parser.add_argument(
        "--soc",
        default="Ascend910B1",
        metavar="NAME",
        help="chip whose memories and vector units count (default: Ascend910B1)",
    )
    parser.add_argument(
        "--call",
        action="append",
        default=[],
        metavar="'FACTORY(ARGS)'",
        help="instantiate a factory that the file itself does not call; may be repeated",
    )
    parser.add_argument(
        "--main",
        action="store_true",
        help="also run the main part and test functions, without data and without launches, "
        "for factories whose arguments only they know",
    )
    parser.add_argument(
        "--fail-on",
        choices=FAIL_ON,
        default="error",
        help="mildest finding that makes the exit code 1 (default: error)",
    )
    options.add_common(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Check the files; 1 when a finding is grave enough."""
    from ascend_infer.cli import output
    from kernels_npu.sim.lint import lint_file, python_files, worst
    from kernels_npu.sim.lint.report import SEVERITIES

    reports = []
    for file in python_files(arguments.paths):
        report = lint_file(
            file,
            target=arguments.target,
            soc=arguments.soc,
            calls=arguments.call,
            main=arguments.main,
        )
        reports.append(report)
        if not arguments.json:
            _print_file(report)
    gravest = worst(f for report in reports for f in report.all_findings)
    failed = (
        arguments.fail_on != "never"
        and gravest is not None
        and SEVERITIES.index(gravest) >= SEVERITIES.index(arguments.fail_on)
    )
    if arguments.json:
        output.print_json({"passed": not failed, "files": [r.to_dict() for r in reports]})
    else:
        _print_totals(reports)
    return 1 if failed else 0


def _print_file(report: FileReport) -> None:
    for finding in report.findings:
        print(finding)
    for kernel in report.kernels:
        _print_kernel(kernel)
    sys.stdout.flush()  # a folder takes a while


def _print_totals(reports: list[FileReport]) -> None:
    kernels = sum(len(report.kernels) for report in reports)
    findings = sum(len(report.all_findings) for report in reports)
    silent = sum(not (report.kernels or report.findings) for report in reports)
    print(
        f"kernels: {kernels}, files: {len(reports)}, findings: {findings}"
        + (f", files that define no kernel: {silent}" if silent else "")
        + " (static-check; bytes per core)"
    )


_MEMORY_ROW = "  {:<6}{:>12}{:>12}{:>12}{:>12}"


def _print_kernel(kernel: KernelReport) -> None:
    """The kernel, its bytes per memory, its findings."""
    where = f"{kernel.loc}  " if kernel.loc else ""
    print(f"{where}{kernel.kernel}  [{kernel.target}]  {kernel.made_by}".rstrip())
    if kernel.memory:
        print(_MEMORY_ROW.format("bytes", "configured", "planned", "unplanned", "capacity"))
    for memory, use in kernel.memory.items():
        counts = (use.configured, use.planned, use.unplanned, use.capacity)
        # No number: the live buffers exceed the memory, and the compiler gives up.
        texts = ("too many" if count is None else f"{count:,}" for count in counts)
        print(_MEMORY_ROW.format(memory, *texts))
    for finding in kernel.findings:
        print(finding)
    print()
