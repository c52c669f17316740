"""`ascend-infer sim run`: an unmodified tilelang-ascend script on the simulated NPU."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import traceback
from bdb import BdbQuit
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ascend_infer import devices
from ascend_infer.cli import instruments, options
from ascend_infer.target import Target, compiling_for, parse_target
from kernels_npu.dialect.guard import ForeignDialect
from kernels_npu.errors import AscendInferError, UsageError

if TYPE_CHECKING:
    from kernels_npu.sim.reporting import SimReport


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its options."""
    group = commands.add_parser("sim", help="run scripts on the simulated NPU")
    actions = group.add_subparsers(title="actions", metavar="ACTION", required=True)
    parser = actions.add_parser(
        "run",
        # An abbreviation may be an option of the script.
        allow_abbrev=False,
        help="run an unmodified tilelang-ascend script",
        description="Run a Python script with the simulator in place of tilelang, torch_npu and "
        "the device npu. What follows SCRIPT goes to the script. The exit code is the script's, "
        "or 1 when it succeeds in spite of an error-level finding.",
    )
    parser.add_argument(
        "--target",
        type=_target,
        default="ascendc",
        metavar="NAME[,NAME]",
        help='what target="auto" means (ascendc or pto), the chip (A2, A3, A5 or a SoC version), '
        "or both, as pto,A5 (default: ascendc on Ascend910B1)",
    )
    parser.add_argument(
        "-m",
        dest="as_module",
        action="store_true",
        help="SCRIPT is the name of a module, as with python -m; for example: -m pytest FILE",
    )
    parser.add_argument(
        "--report", type=Path, metavar="FILE.json", help="write counters and findings as JSON"
    )
    # A script has a verdict of its own, and both are wanted: its values, and what was found.
    options.add_simulation(parser, on_finding="report")
    instruments.add_options(parser)
    options.add_opprof(parser)
    options.add_common(parser)
    parser.add_argument("script", metavar="SCRIPT")
    parser.add_argument("arguments", metavar="ARGS", nargs=argparse.REMAINDER)
    parser.set_defaults(run=run, device="sim")


def _target(text: str) -> Target:
    """An argparse type."""
    try:
        return parse_target(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def run(arguments: argparse.Namespace) -> int:
    """Run the script, then show what the simulated NPU counted and found."""
    from ascend_infer.cli import output
    from ascend_infer.simulation import simulating

    # The script may change the working directory.
    report_file = None if arguments.report is None else _writable(arguments.report)
    devices.require_torch()
    devices.open_device("sim")
    from kernels_npu.sim.reporting import collect_report

    with (
        compiling_for(arguments.target),
        simulating(options.simulation(arguments), soc=arguments.target.soc),
        collect_report() as report,
        instruments.debugged(arguments),
        instruments.instrumented(arguments) as tracer,
        instruments.profiled(arguments) as profiled,
    ):
        exit_code, error = _execute(arguments)
    ending = _ending(exit_code, error)
    script_exit_code = exit_code
    if exit_code == 0 and (report.failed or (profiled is not None and not profiled.written)):
        exit_code = 1
    result = {
        "script": arguments.script,
        "exit_code": exit_code,
        "script_exit_code": script_exit_code,
        "error": error.to_dict() if isinstance(error, AscendInferError) else None,
        "ended_with": ending or None,
        "precise": arguments.precise,
        "trace": None if tracer is None else tracer.to_dict(),
        "profile": None if profiled is None else profiled.to_dict(),
        **report.to_dict(),
    }
    if arguments.json:
        output.print_json(result)
    else:
        _print(report, checked=arguments.checks != "off", ending=ending)
        if arguments.precise:
            print("precise: float16 and bfloat16 values were kept in float32, as no device does")
        if tracer is not None:
            print(f"trace {tracer.file.path}: {tracer.summary()}")
        if profiled is not None and profiled.written:
            print(f"profile {profiled.folder}: {profiled.summary()}")
    if profiled is not None and not profiled.written:
        from ascend_infer.step_profile import nothing_profiled

        output.print_error(nothing_profiled(), as_json=False)
    if report_file is not None:
        try:
            _write(report_file, result)
        except OSError as error:
            # Standard output has the result already; the one object stays the only one.
            output.print_error(_not_writable(report_file, error), as_json=False)
            return 2
    return exit_code


def _execute(arguments: argparse.Namespace) -> tuple[int, Exception | None]:
    """Run the script; its exit code (1 when it raised) and the exception that it raised, if any.

    Its output goes where it belongs. Its own failure is its result, shown as Python shows it; what
    the simulated NPU counted still follows.
    """
    from kernels_npu.sim.device.run_script import run_module, run_script

    execute = run_module if arguments.as_module else run_script
    try:
        with _script_output(to_stderr=arguments.json):
            execute(arguments.script, arguments.arguments)
    except SystemExit as stop:
        return _exit_code(stop), None
    except KeyboardInterrupt:
        traceback.print_exc()
        return 130, None
    except BdbQuit:
        return 130, None
    except Exception as error:
        if isinstance(error, AscendInferError) and error.code == "AI-DEV-012":
            raise  # there is no script: a wrong use, not the script's failure
        if isinstance(error, ForeignDialect):
            raise  # the script was not executed
        traceback.print_exc()
        return 1, error
    return 0, None


def _ending(exit_code: int, error: Exception | None) -> str:
    """What ended a script that did not end well: a code, an exception's name, or an exit code."""
    if isinstance(error, AscendInferError):
        return error.code
    if error is not None:
        return type(error).__name__
    return f"exit code {exit_code}" if exit_code else ""


@contextlib.contextmanager
def _script_output(*, to_stderr: bool) -> Iterator[None]:
    """With `--json`, standard output is for the one object; what the script and its children and
    libraries write there goes to standard error."""
    sys.stdout.flush()
    if not to_stderr:
        yield
        sys.stdout.flush()
        return
    standard_output = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        for stream in (sys.stderr, sys.__stdout__):
            if stream is not None:
                stream.flush()
        os.dup2(standard_output, 1)
        os.close(standard_output)


def _exit_code(stop: SystemExit) -> int:
    """The exit code as the interpreter and the system make it.

    None is 0, of a number the lowest byte is left, anything else is printed and 1.
    """
    if stop.code is None:
        return 0
    if isinstance(stop.code, int):
        return stop.code & 0xFF
    print(stop.code, file=sys.stderr)
    return 1


def _writable(report: Path) -> Path:
    """The absolute path of a report file that can be written, found out before the script runs."""
    path = report.absolute()
    try:
        path = path.resolve()
        if path.exists() and not path.is_file():
            raise OSError("it is there and is not a file")
        _temporary(path).touch()
        _temporary(path).unlink()
    except (OSError, RuntimeError) as error:
        raise _not_writable(report, error) from error
    return path


def _not_writable(report: Path, error: Exception) -> UsageError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else error
    return UsageError(
        "AI-CLI-004",
        f"cannot write {report}: {reason}",
        fix="pass --report with a file in an existing folder that you may write to",
    )


def _temporary(path: Path) -> Path:
    return path.with_name(f".{os.getpid()}.report")


def _write(path: Path, result: dict[str, Any]) -> None:
    """Write under a temporary name, then move: a report is complete or absent."""
    temporary = _temporary(path)
    try:
        temporary.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _print(report: SimReport, *, checked: bool, ending: str) -> None:
    from ascend_infer.cli import findings, output

    rows = []
    for name, totals in report.kernels.items():
        busiest = max(totals.cycles.items(), key=lambda item: item[1], default=("", 0))
        rows.append(
            (
                name,
                totals.launches,
                totals.blocks,
                f"{sum(totals.gm_read.values()):,}",
                f"{sum(totals.gm_written.values()):,}",
                f"{sum(totals.instructions.values()):,}",
                f"{busiest[1]:,} {busiest[0]}",
            )
        )
    columns = (
        "kernel",
        "launches",
        "blocks",
        "GM read B",
        "GM written B",
        "instr.",
        "busiest pipe",
    )
    output.print_table(
        "Simulated NPU",
        columns,
        rows,
        note="bytes and instructions: simulated; cycles of the busiest pipe: modelled, never time",
    )
    findings.print_findings(report.findings)
    if not report.findings:
        print(_nothing_found(launched=bool(report.kernels), checked=checked, ending=ending))


def _nothing_found(*, launched: bool, checked: bool, ending: str) -> str:
    """The last line of a run without findings: what that is worth.

    A script that never launched, or that failed on its way, has not been found free of faults.
    """
    if not launched:
        outcome = "no launch was completed: nothing was checked"
    else:
        outcome = "no findings" if checked else "checks were off: nothing was looked for"
    return f"{outcome}; the script ended with {ending}" if ending else outcome
