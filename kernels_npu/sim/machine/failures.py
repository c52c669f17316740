"""Python exceptions of a running program as findings with the user's line."""

from __future__ import annotations

from bdb import BdbQuit
from collections.abc import Hashable, Sequence
from types import TracebackType

from kernels_npu.errors import AscendInferError
from kernels_npu.sim import ir
from kernels_npu.sim.machine.core_reports import StopLaunch
from kernels_npu.sim.machine.findings import ERROR, Finding, FindingLog
from kernels_npu.sim.machine.scheduler import Running
from kernels_npu.sim.machine.shadow import CORES


class StoppingLog(FindingLog):
    """A log that ends the launch at the first error that is not `known`, once `stop` is set."""

    stop = False
    known: frozenset[tuple[str, ...]] = frozenset()

    def add(self, key: Hashable, finding: Finding) -> None:
        """Record `finding`; raises StopLaunch when it is an error."""
        super().add(key, finding)
        if self.stop and finding.severity == ERROR and finding.identity not in self.known:
            raise StopLaunch


def failure_finding(kernel: str, running: Sequence[Running], exc: Exception) -> Finding | None:
    """The finding for `exc`, or None when it does not come from a kernel's statement."""
    if isinstance(exc, (AscendInferError, BdbQuit)):
        return None
    for item in running:
        stmt = _statement(item, exc.__traceback__)
        if stmt is None:
            continue
        block, core = item.core.runtime.state.block, CORES[item.core.index]
        if isinstance(exc, ZeroDivisionError):
            code, what = "AI-SRC-062", "an integer is divided by zero"
            fix = "guard the division, for example with T.max(divisor, 1)"
        else:
            code, what = "AI-SRC-063", f"the statement failed with {type(exc).__name__}: {exc}"
            fix = "check the values that the statement computes with"
        return Finding(
            code=code,
            severity=ERROR,
            message=f"{what} (block {block}, {core})",
            kernel=kernel,
            loc=stmt.loc,
            fix=fix,
        )
    return None


def _statement(item: Running, trace: TracebackType | None) -> ir.Stmt | None:
    """A core's statement that the traceback passes through, or that was executing."""
    queues, program = item.core.queues, item.core.source
    if queues is not None and queues.executing >= 0:
        return program.sites[queues.executing].stmt
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == program.filename:
            return program.line_stmts.get(trace.tb_lineno)
        trace = trace.tb_next
    return None
