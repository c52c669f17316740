"""What `profile op|simulator|app` is asked for, from its arguments."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kernels_npu.errors import UsageError

if TYPE_CHECKING:
    from ascend_infer.collecting import OperatorTarget
    from profiling.collect import Request

#: Before the names of the profiler's own options, to tell them from ours.
PREFIX = "tool:"
#: Seconds of a collection, unless asked for otherwise.
TIME_LIMIT_S = 3600


def operator_of(arguments: argparse.Namespace) -> OperatorTarget | None:
    """What `--op` names; None without it."""
    from ascend_infer.collecting import OperatorTarget

    case: str | None = getattr(arguments, "case", None)
    if getattr(arguments, "op", None) is None:
        if case is not None:
            raise UsageError(
                "AI-CLI-003",
                f"--case {case} without --op",
                rule="a case is one of an operator's workloads",
                fix="add --op, or leave --case out",
            )
        return None
    target = OperatorTarget(
        name=arguments.op, case=case, dtype=arguments.dtype, device=arguments.device
    )
    # A dry run asks torch only where it has to.
    return target if case is None and arguments.dry_run else target.with_known_case()


def request_of(arguments: argparse.Namespace, operator: OperatorTarget | None) -> Request:
    """What is collected, with our defaults; not yet checked."""
    from ascend_infer.collecting import host_soc, selection
    from profiling.collect import MODES, Request

    mode = MODES[arguments.mode]
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    given = {
        name.removeprefix(PREFIX): value
        for name, value in vars(arguments).items()
        if name.startswith(PREFIX) and value is not None
    }
    values = selection(mode, given, operator.name if operator else None)
    if operator is not None:
        if command:
            raise UsageError(
                "AI-CLI-003",
                f"--op {operator.name} together with the command {command[0]}",
                rule="one thing is profiled: an operator of ours, or a command",
                fix="leave --op out, or the command",
            )
        command = operator.application(_launches(values))
    soc: str = getattr(arguments, "soc", None) or ""
    if not soc and mode.name == "op" and not arguments.dry_run:
        soc = host_soc()
    return Request(
        mode=mode,
        values=values,
        application=tuple(command),
        output=arguments.output,
        soc=soc,
    )


def limit_of(asked: int | None, request: Request) -> int:
    """As asked; a simulator that ends itself in time shall also analyse what it has."""
    if asked is not None:
        return asked
    minutes = request.given.get("timeout", "")  # what is no number is refused later
    return TIME_LIMIT_S + (int(minutes) * 60 if minutes.isdecimal() else 0)


def _launches(values: dict[str, str]) -> str:
    """So many that the profiler finds all it shall collect; what is no number it refuses."""
    counts = (values.get(name, "") for name in ("launch-skip-before-match", "launch-count"))
    return str(sum(int(count) for count in counts if count.isdecimal()))
