"""What `sim run` attaches to the launches of a script: a trace, breakpoints, a profile."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ascend_infer.cli.options import integer
from kernels_npu.errors import UsageError

if TYPE_CHECKING:
    from kernels_npu.sim.tracing import TraceRecorder
    from profiling.simulated import SimulatedRun


def add_options(parser: argparse.ArgumentParser) -> None:
    """`--trace` with its limits, and `--break`."""
    group = parser.add_argument_group("trace")
    group.add_argument(
        "--trace",
        type=Path,
        metavar="FILE.json",
        help="write a trace for ui.perfetto.dev: a process per block and core, a thread per pipe, "
        "flags as arrows; the axis is modelled cycles, never time",
    )
    group.add_argument(
        "--trace-blocks",
        type=integer(1),
        default=8,
        metavar="N",
        help="blocks of a launch in this trace or that of --opprof (default: the first 8)",
    )
    group.add_argument(
        "--trace-launches",
        type=integer(1),
        default=16,
        metavar="N",
        help="launches that are traced (default: the first 16)",
    )

    group = parser.add_argument_group("debugger")
    group.add_argument(
        "--break",
        dest="breakpoints",
        action="append",
        default=[],
        metavar="FILE:LINE[,block=N][,core=aic|aiv0|aiv1]",
        help="stop before this line of a kernel in Python's debugger; repeatable",
    )
    group.add_argument(
        "--break-command",
        dest="break_commands",
        action="append",
        default=[],
        metavar="COMMAND",
        help="a debugger command to execute at each stop in place of the prompt, after which the "
        "kernel goes on; repeatable",
    )


@contextlib.contextmanager
def debugged(arguments: argparse.Namespace) -> Iterator[None]:
    """Launches in the body stop at the breakpoints asked for; says which were not reached."""
    if not arguments.breakpoints and not arguments.break_commands:
        yield
        return
    from kernels_npu.sim.config import configure_everywhere
    from kernels_npu.sim.debugger.breakpoints import Breakpoint
    from kernels_npu.sim.debugger.kernel_pdb import debugger

    points = tuple(map(Breakpoint.parse, arguments.breakpoints))
    debugger().commands_at_stop = list(arguments.break_commands)
    with configure_everywhere(breakpoints=points):
        yield
    for problem in debugger().missed(points):
        print(problem, file=sys.stderr)


@contextlib.contextmanager
def instrumented(arguments: argparse.Namespace) -> Iterator[TraceRecorder | None]:
    """Trace the launches in the body, if asked for."""
    from kernels_npu.sim.tracing import trace

    if arguments.trace is None:
        yield None
        return
    limits = {"blocks": arguments.trace_blocks, "launches": arguments.trace_launches}
    with trace(arguments.trace, **limits) as recorder:
        yield recorder


@contextlib.contextmanager
def profiled(arguments: argparse.Namespace) -> Iterator[SimulatedRun | None]:
    """Write a profile of the launches in the body, if asked for."""
    if arguments.opprof is None:
        yield None
        return
    if arguments.trace is not None:
        raise UsageError(
            "AI-CLI-003",
            "--trace and --opprof both record what the pipes do",
            fix="leave out --trace: the profile has a trace.json",
        )
    from profiling.simulated import profile_simulated

    with profile_simulated(
        arguments.opprof,
        launches=arguments.opprof_launches,
        blocks=arguments.trace_blocks,
        command=sys.argv,
        settings={"model": "none, kernels of a script", "lengths": "none, the script's inputs"},
    ) as run:
        yield run
