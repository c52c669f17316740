"""Sites: the places in a program whose execution is counted, checked and reported."""

from __future__ import annotations

from dataclasses import dataclass

from kernels_npu.sim import ir
from kernels_npu.sim.machine.instruction import Instruction
from kernels_npu.sim.machine.operands import Rect, View


@dataclass(frozen=True, eq=False)
class Footprint:
    """A range that a site touches.

    On chip: `address` of the buffer, then `offset` elements. Global: `tensor` is the parameter
    index. data_only: tells what the result is made of; another instruction did the reading.
    conditional: only when the site's condition holds. clobbers: the write leaves nothing of use.
    """

    view: View | Rect
    write: bool
    address: int = 0
    tensor: int = -1
    data_only: bool = False
    conditional: bool = False
    clobbers: bool = False

    @property
    def fixed(self) -> bool:
        """Whether the range is known before the kernel runs."""
        return isinstance(self.view, View) and isinstance(self.view.offset, ir.Const)


@dataclass(frozen=True, eq=False)
class Site:
    """One instruction or scalar access of one core's program.

    clips: the on-chip side of a move with global memory covers only what the tensor's border
    leaves. element: one element of an on-chip buffer, touched by the scalar unit. parallel: a
    statement of `T.Parallel`.
    """

    index: int
    stmt: ir.Stmt
    op: str
    pipe: str
    footprints: tuple[Footprint, ...]
    instruction: Instruction | None = None
    cycles: int = 0
    gm_path: str = ""
    clips: bool = False
    element: bool = False
    parallel: bool = False
