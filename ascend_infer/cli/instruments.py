"""What `sim run` attaches to the launches of a script: a trace for Perfetto."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ascend_infer.cli.options import integer

if TYPE_CHECKING:
    from kernels_npu.sim.tracing import TraceRecorder


def add_options(parser: argparse.ArgumentParser) -> None:
    """`--trace` and its limits."""
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
        help="blocks of a launch that are written (default: the first 8)",
    )
    group.add_argument(
        "--trace-launches",
        type=integer(1),
        default=16,
        metavar="N",
        help="launches that are traced (default: the first 16)",
    )


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
