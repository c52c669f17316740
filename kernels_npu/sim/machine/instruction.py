"""One instruction of the simulated NPU, and the table that maps tile operations to instructions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy.typing as npt

from kernels_npu.errors import AscendInferError, UnsupportedError
from kernels_npu.sim import ir
from kernels_npu.sim.machine.cost import Arithmetic
from kernels_npu.sim.machine.operands import Rect, View
from kernels_npu.sim.machine.targets import require_target
from kernels_npu.sim.soc import Soc

AnyArray = npt.NDArray[Any]

#: How "this byte was never written" travels from sources to the destination. Called with one
#: boolean array per read view (element granularity, in the order of `reads`) and the shape
#: of the destination.
TaintRule = Callable[[list[AnyArray], tuple[int, ...]], AnyArray]


class DeqScale:
    """Stands for the register that `T.set_deq_scale` sets, as an argument of a kernel."""


DEQ_SCALE = DeqScale()


@dataclass(frozen=True, eq=False)
class MemoryFrom:
    """An argument that arrives as all elements from the start of `view` to its memory's end."""

    view: View


@dataclass(frozen=True, eq=False)
class OutsideReport:
    """An argument that arrives as a function to report an offset outside `buffer`'s memory.

    It takes the offset in bytes and the size; it is None when bounds are not checked.
    """

    buffer: ir.Buffer


@dataclass(frozen=True, eq=False, kw_only=True)
class Instruction:
    """What the code generator needs of an operation.

    pipe: the pipe that executes it. kernel: called with `args` in order; views and rectangles
    arrive as NumPy arrays, expressions as Python numbers, anything else as it is.
    reads, writes: the views and rectangles among `args` (and hidden ones) for the checks.
    cycles: modelled cycles per execution. taint: see `TaintRule`; None makes the result count as
    written. fences_*: pipe pairs (src, dst) that the operation itself orders before and after it.
    arithmetic: the operations of one execution; None for what only moves, converts or compares.
    gm_path: e.g. `GM->UB` for moves. stages: parts on different pipes, executed in this order.
    scalar_barrier: a scalar operand is read from UB, before which the compiler puts a full barrier.
    atomic: global accesses of this instruction never conflict with each other.
    data_reads: what the result is made of although an earlier stage read it.
    reads_unless: further reads, done unless the condition holds (an accumulator, unless `init`).
    clobbers: hidden buffers that are left with nothing of use.
    clips: the on-chip side of a move covers only what moves.
    prologue: executed first when the tensor's border clips the move (the fill with the pad value).
    tile: what a moved rectangle must fit, when that is not the on-chip side of the checks.
    events: flags (src, dst, event id) that the operation itself sets and waits for.
    overtakes: starts before the one before it on the pipe is done, and adds to what that wrote.
    tail: what a compacting operation leaves of its destination behind its results, for whoever
    stores the whole to ignore.
    """

    op: str
    pipe: str
    kernel: Callable[..., object]
    args: tuple[View | Rect | ir.Expr | object, ...]
    reads: tuple[View | Rect, ...] = ()
    writes: tuple[View | Rect, ...] = ()
    cycles: int = 0
    arithmetic: Arithmetic | None = None
    taint: TaintRule | None = None
    fences_before: tuple[tuple[str, str], ...] = ()
    fences_after: tuple[tuple[str, str], ...] = ()
    gm_path: str = ""
    stages: tuple[Instruction, ...] = ()
    scalar_barrier: bool = False
    atomic: bool = False
    data_reads: tuple[View, ...] = ()
    reads_unless: tuple[ir.Expr, tuple[View, ...]] | None = None
    clobbers: tuple[View, ...] = ()
    clips: bool = False
    prologue: Instruction | None = None
    tile: View | None = None
    events: tuple[tuple[str, str, int], ...] = ()
    overtakes: bool = False
    tail: View | None = None


@dataclass(frozen=True)
class LoweringContext:
    """What an operation may depend on besides its operands.

    stage_bytes: how much of L0A and L0B the kernel's buffers take, which `gemm_v0` overwrites.
    refused: where statements that cannot be executed are collected; None: the first one raises.
    """

    target: str
    soc: Soc
    stage_bytes: Mapping[str, int] = field(default_factory=dict)
    notes: list[tuple[str, str, str, ir.Stmt]] = field(default_factory=list)
    refused: list[AscendInferError] | None = None

    def note(self, code: str, severity: str, message: str, stmt: ir.Stmt) -> None:
        """Report something about the source that does not stop it from running."""
        self.notes.append((code, severity, message, stmt))


Lowering = Callable[[ir.TileOp, LoweringContext], Instruction]
LOWERINGS: dict[str, Lowering] = {}
_F = TypeVar("_F", bound=Lowering)


def lowers(*names: str) -> Callable[[_F], _F]:
    """Register a function as the lowering of the tile operations `names`."""

    def register(function: _F) -> _F:
        for name in names:
            LOWERINGS[name] = function
        return function

    return register


def lower_tile_op(stmt: ir.TileOp, context: LoweringContext) -> Instruction:
    """The instruction of `stmt`.

    Raises:
        UnsupportedError: AI-SRC-060 when the simulator has no table row for the operation,
            AI-SRC-065 when the code generator of the target has none.
    """
    require_target(stmt, context.target)
    lowering = LOWERINGS.get(stmt.op)
    if lowering is None:
        raise UnsupportedError(
            "AI-SRC-060",
            f"the simulator does not execute {stmt.op!r} yet",
            where=stmt.loc,
            rule=f"executed operations: {', '.join(sorted(LOWERINGS))}",
            fix="write the step with these operations",
        )
    return lowering(stmt, context)
