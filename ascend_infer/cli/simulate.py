"""`ascend-infer sim run`: an unmodified tilelang-ascend script on the simulated NPU."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ascend_infer import devices
from ascend_infer.cli import options
from kernels_npu.errors import AscendInferError, UsageError

if TYPE_CHECKING:
    from kernels_npu.sim.reporting import SimReport


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its options."""
    group = commands.add_parser("sim", help="run scripts on the simulated NPU")
    actions = group.add_subparsers(title="actions", metavar="ACTION", required=True)
    parser = actions.add_parser(
        "run",
        help="run an unmodified tilelang-ascend script",
        description="Run a Python script with the simulator in place of tilelang, torch_npu and the "
        "device npu. What follows SCRIPT goes to the script. The exit code is the script's, or 1 "
        "when it succeeds in spite of an error-level finding.",
    )
    parser.add_argument(
        "--target",
        choices=("ascendc", "pto"),
        default="ascendc",
        help='what target="auto" means to the compiler (default: ascendc)',
    )
    parser.add_argument(
        "--report", type=Path, metavar="FILE.json", help="write counters and findings as JSON"
    )
    options.add_simulation(parser)
    options.add_common(parser)
    parser.add_argument("script", metavar="SCRIPT")
    parser.add_argument("arguments", metavar="ARGS", nargs=argparse.REMAINDER)
    parser.set_defaults(run=run, device="sim")


def run(arguments: argparse.Namespace) -> int:
    """Run the script, then show what the simulated NPU counted and found."""
    from ascend_infer.simulation import simulating

    _require_writable(arguments.report)
    devices.require_torch()
    devices.open_device("sim")
    from kernels_npu.sim.reporting import collect_report

    # The package offers the decorator `jit` under the module's own name.
    compiler: Any = importlib.import_module("kernels_npu.sim.frontend.jit")
    compiler.auto_target = arguments.target
    with simulating(options.simulation(arguments)), collect_report() as report:
        exit_code = _execute(arguments)
    if exit_code == 0 and report.failed:
        exit_code = 1
    result = {"script": arguments.script, "exit_code": exit_code, **report.to_dict()}
    if arguments.report is not None:
        _write(arguments.report, result)
    if arguments.json:
        from ascend_infer.cli import output

        output.print_json(result)
    else:
        _print(report)
    return exit_code


def _execute(arguments: argparse.Namespace) -> int:
    """Run the script; its exit code, 1 when it raised. Its output goes where it belongs."""
    from kernels_npu.sim.device.run_script import run_script

    try:
        with _script_output(to_stderr=arguments.json):
            run_script(arguments.script, arguments.arguments)
    except SystemExit as stop:
        return _exit_code(stop)
    except AscendInferError as error:
        if error.code == "AI-DEV-012":  # there is no script: a wrong use, not the script's failure
            raise
        traceback.print_exc()
        return 1
    # The script's own failure is its result, shown as Python shows it; counters still follow.
    except Exception:  # noqa: BLE001
        traceback.print_exc()
        return 1
    return 0


@contextlib.contextmanager
def _script_output(*, to_stderr: bool) -> Iterator[None]:
    """With `--json`, standard output is for the one object; the script prints to standard error."""
    with contextlib.redirect_stdout(sys.stderr) if to_stderr else contextlib.nullcontext():
        yield
    sys.stdout.flush()


def _exit_code(stop: SystemExit) -> int:
    """As the interpreter does it: None is 0, a number is itself, anything else is printed and 1."""
    if stop.code is None:
        return 0
    if isinstance(stop.code, int):
        return stop.code
    print(stop.code, file=sys.stderr)
    return 1


def _require_writable(report: Path | None) -> None:
    """Refuse an impossible report file before the script runs, not after."""
    if report is not None and not os.access(report.parent, os.W_OK):
        raise UsageError(
            "AI-CLI-004",
            f"cannot write {report}: its folder does not exist or is read-only",
            fix="pass --report with a file in an existing folder",
        )


def _write(path: Path, result: dict[str, Any]) -> None:
    """Write under a temporary name, then move: a report is complete or absent."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    os.replace(temporary, path)


def _print(report: SimReport) -> None:
    from ascend_infer.cli import output

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
    for finding in report.findings:
        print(finding)
    if not report.findings:
        print("no findings")
