"""Operations of every row with a scalar of its own: dst[i, j] = src0[i, j] op src1[i]."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kernels_npu.errors import KernelSourceError
from kernels_npu.sim import ir
from kernels_npu.sim.machine import cost
from kernels_npu.sim.machine.instruction import AnyArray, Instruction, LoweringContext, lowers
from kernels_npu.sim.machine.operands import (
    View,
    flat_run,
    linear,
    mins_extents,
    shape_of,
    static_int,
)
from kernels_npu.sim.machine.ops.elementwise import check_dtype, same_dtype
from kernels_npu.sim.machine.ops.repeats import BLOCK_BYTES, BLOCKS

_UFUNC = {"mul": np.multiply, "sub": np.subtract, "div": np.divide}


def _rows_of(operand: ir.Operand, stmt: ir.TileOp) -> View:
    """A 2-D operand: the last dimension as columns, all the others as rows at one pitch."""
    buffer, mins, extents = mins_extents(operand, stmt.loc)
    shape = shape_of(buffer, stmt.loc)
    sizes = [static_int(e, stmt.loc, "an extent") for e in extents or ()]
    rows = int(np.prod(sizes[:-1])) if isinstance(operand, ir.Region) else sizes[-2]
    return View(buffer, linear(shape, mins), rows, sizes[-1], shape[-1], flat=False)


def _require_one_repeat(stmt: ir.TileOp, dst: View, src: View) -> None:
    """AscendC processes one iteration of 256 bytes per row, eight rows at a time."""
    width = BLOCKS * BLOCK_BYTES // dst.itemsize
    problem = None
    if dst.cols != width:
        problem = f"its rows have {dst.cols} elements"
    elif dst.rows % 8:
        problem = f"it has {dst.rows} rows"
    elif src.pitch != dst.pitch and dst.rows > 1:
        problem = f"rows of {src.buffer.name} are {src.pitch} elements apart, not {dst.pitch}"
    if problem is None:
        return
    raise KernelSourceError(
        "AI-BOUND-035",
        f"T.tile.{stmt.op} on {dst.buffer.name}: {problem}",
        where=stmt.loc,
        rule=f"on target ascendc a row is one iteration of 256 bytes ({width} {dst.buffer.dtype} "
        "elements), rows come in multiples of 8, at the pitch of the destination's buffer",
        fix=f"slice columns of {width} elements, or use T.tile.broadcast and T.tile."
        f"{stmt.op.split('_')[2]}",
    )


@lowers(
    "row_expand_mul",
    "row_expand_mul_experiment",
    "row_expand_sub_experiment",
    "row_expand_div_experiment",
)
def lower_row_expand(stmt: ir.TileOp, context: LoweringContext) -> Instruction:
    """`row_expand_op(dst, src0, src1, tmp=None)`.

    AscendC: with tmp, src1 holds one scalar per row, replicated into tmp; without, src1 already
    holds a 32-byte block per row. Target pto always takes one scalar per row.
    """
    dst, src = (_rows_of(o, stmt) for o in stmt.operands[:2])
    check_dtype(stmt, dst, context)
    same_dtype(stmt, dst, src)
    block = BLOCK_BYTES // dst.itemsize
    by_blocks = context.target == "ascendc"
    if by_blocks:
        _require_one_repeat(stmt, dst, src)
    expanded = by_blocks and len(stmt.operands) == 3
    scalars = flat_run(stmt.operands[2], dst.rows * (block if expanded else 1), stmt.loc)
    same_dtype(stmt, dst, scalars)
    ufunc = _UFUNC[stmt.op.split("_")[2]]
    tmp: tuple[View, ...] = ()
    if by_blocks and not expanded:
        tmp = (flat_run(stmt.operands[3], dst.rows * block, stmt.loc),)
    return Instruction(
        op=stmt.op,
        pipe="V",
        kernel=_kernel(ufunc, block if expanded else 1, replicate=bool(tmp), block=block),
        args=(src, scalars, *tmp, dst),
        reads=(src, scalars),
        writes=(dst, *tmp),
        cycles=cost.vector(dst.count * dst.itemsize, 2 if tmp else 1),
        arithmetic=cost.on_lanes(dst),
        taint=lambda sources, shape: np.full(shape, all(s.all() for s in sources)),
    )


def _kernel(ufunc: np.ufunc, per_row: int, *, replicate: bool, block: int) -> Callable[..., None]:
    def run(source: AnyArray, scalars: AnyArray, *rest: AnyArray) -> None:
        *scratch, out = rest
        if replicate:
            scratch[0].reshape(-1, block)[:] = scalars[:, None]
        rows = scalars.reshape(len(out), per_row)
        # A block of scalars is reused along the row.
        ufunc(source, np.tile(rows, out.shape[1] // per_row), out)

    return run
