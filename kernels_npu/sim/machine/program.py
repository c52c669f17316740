"""Generated program of one core kind: source text, sites, and what to bind before running it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import CodeType

from kernels_npu.sim import ir
from kernels_npu.sim.debugger.breakpoints import Breakpoint
from kernels_npu.sim.machine.operands import View
from kernels_npu.sim.machine.sites import Site
from kernels_npu.sim.machine.stretch_steps import Step


@dataclass(frozen=True, eq=False)
class ViewConstant:
    """A NumPy view of on-chip memory, made when the program is bound to a core.

    kind: `view` (the fixed view itself), `flat` (from the buffer's start to the end of the memory).
    """

    kind: str
    view: View
    address: int


@dataclass(frozen=True, eq=False)
class DebugInfo:
    """What a program for the debugger is bound to.

    breakpoints: by the number that the program passes. buffers: generated name -> (buffer, its
    address). files: of statements from other files than the kernel's (see `source_mapping`).
    """

    breakpoints: tuple[Breakpoint, ...]
    buffers: Mapping[str, tuple[ir.Buffer, int]]
    files: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class CoreProgram:
    """Generated code of the cube core or of a vector core.

    The function `entry` in it is a generator: it yields when the core waits (see `scheduler`).
    views: names bound per core to memory views; factories: names bound per core by calling them;
    values: names bound once. stretches: the steps of `g0`, `g1` and so on. empty: the core has
    nothing to do. line_stmts: by line of the code, the statement it executes. debug: what a program
    for the debugger needs, whose lines are those of the user's file.
    """

    core_kind: str
    source: str
    code: CodeType
    filename: str
    line_stmts: Mapping[int, ir.Stmt]
    sites: tuple[Site, ...]
    stretches: tuple[tuple[Step, ...], ...]
    views: dict[str, ViewConstant]
    factories: dict[str, Callable[[], object]]
    values: dict[str, object]
    deferred: bool
    traced: bool
    empty: bool
    entry: str = "program"
    debug: DebugInfo | None = None
