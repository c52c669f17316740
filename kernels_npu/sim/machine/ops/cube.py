"""Matrix products: 16-bit inputs accumulate in float32, int8 in int32.

How the cube orders a sum is not documented, and every BLAS has orders of its own. Products of short
16-bit rows are therefore summed in float64 and rounded to float32 once: the same bits whatever the
tile, and whoever else computes the product so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from kernels_npu.sim import ir
from kernels_npu.sim.machine import cost
from kernels_npu.sim.machine.half import widen
from kernels_npu.sim.machine.instruction import (
    AnyArray,
    Instruction,
    LoweringContext,
    TaintRule,
    lowers,
)
from kernels_npu.sim.machine.memory import POISON
from kernels_npu.sim.machine.operands import View, tile_view
from kernels_npu.sim.machine.ops.cube_operands import check_product, require_scopes

_FRACTAL = 16

#: A product of fewer fractals can start before the one before it has written its result; the
#: vendor's matrix library puts a barrier of the pipe between the two, as `gemm_v0` does always.
_SMALL_PRODUCT = 10


class PerCore:
    """An argument of a kernel that each core makes for itself, by calling this."""

    def __call__(self) -> object:
        raise NotImplementedError


class StageQueue(PerCore):
    """Tiles on their way from MTE1 to the cube unit inside one `gemm_v0`; one queue per core."""

    def __call__(self) -> deque[tuple[AnyArray, AnyArray]]:
        return deque()


#: By address of a tile in L0C: its sums before they were rounded.
Sums = dict[int, AnyArray]


class Accumulators(PerCore):
    """What rounding took from the sums in L0C: cutting K into pieces must not change a result."""

    def __call__(self) -> Sums:
        return {}


_ACCUMULATORS = Accumulators()


#: Longest sums that are exact in float64 as good as always, and still cheap.
EXACT_SUM = 256


def _widen(a: AnyArray, length: int) -> AnyArray:
    """An operand in the dtype in which sums of `length` products are computed."""
    if a.dtype == np.float32:
        return a
    if a.dtype.kind in "iu":
        return a.astype(np.int32)
    wide = widen(a)
    return wide.astype(np.float64) if length <= EXACT_SUM else wide


def _accumulate(a: AnyArray, b: AnyArray, c: AnyArray, init: object, sums: Sums) -> None:
    place = c.__array_interface__["data"][0]
    if a.dtype != np.float64:
        sums.pop(place, None)
        if init:
            np.matmul(a, b, out=c)
        else:
            c += np.matmul(a, b)
        return
    total = np.matmul(a, b)
    if not init:
        held = sums.get(place)
        current = held is not None and np.array_equal(held.astype(np.float32), c)
        total += held if current and held is not None else c
    np.copyto(c, total, casting="unsafe")
    sums[place] = total


def _mma(a: AnyArray, b: AnyArray, c: AnyArray, init: object, sums: Sums) -> None:
    length = a.shape[1]
    _accumulate(_widen(a, length), _widen(b, length), c, init, sums)


def _product_taint(transpose_a: bool = False, transpose_b: bool = False) -> TaintRule:
    """A product is written where its row of A, its column of B and, if it adds, the old C are."""

    def taint(sources: list[AnyArray], shape: tuple[int, ...]) -> AnyArray:
        rows = np.logical_and.reduce(sources[0], axis=0 if transpose_a else 1).reshape(-1, 1)
        cols = np.logical_and.reduce(sources[1], axis=1 if transpose_b else 0).reshape(1, -1)
        written = np.broadcast_to(rows & cols, shape)
        return written & sources[2] if len(sources) > 2 else written

    return taint


def _accumulator(init: ir.Expr, c: View) -> tuple[ir.Expr, tuple[View, ...]] | None:
    """The read of C, which happens unless `init` holds."""
    fresh = isinstance(init, ir.Const) and bool(init.value)
    return None if fresh else (init, (c,))


@lowers("mma")
def lower_mma(stmt: ir.TileOp, context: LoweringContext) -> Instruction:
    """`mma(A_L0A, B_L0B, C_L0C, init)`: B is K x N."""
    a, b, c = (tile_view(o, stmt.loc) for o in stmt.operands[:3])
    require_scopes(stmt, (a, b, c), ("l0a", "l0b", "l0c"))
    check_product(stmt, a, b, c, (a.rows, a.cols, b.rows, b.cols), context)
    init = ir.as_expr(stmt.attrs.get("init", False))  # type: ignore[arg-type]
    return Instruction(
        op=stmt.op,
        pipe="M",
        kernel=_mma,
        args=(a, b, c, init, _ACCUMULATORS),
        reads=(a, b),
        reads_unless=_accumulator(init, c),
        writes=(c,),
        cycles=cost.cube(a.rows, b.cols, a.cols, a.itemsize),
        arithmetic=cost.product(a.rows, b.cols, a.cols, a.buffer.dtype, a.itemsize),
        taint=_product_taint(),
        overtakes=(-(-a.rows // _FRACTAL)) * (-(-b.cols // _FRACTAL)) < _SMALL_PRODUCT,
    )


def _stage_in(transpose_a: bool, transpose_b: bool) -> Callable[..., None]:
    def stage(
        a: AnyArray, b: AnyArray, queue: deque[tuple[AnyArray, AnyArray]], *hidden: AnyArray
    ) -> None:
        length = a.shape[0] if transpose_a else a.shape[1]
        left, right = _widen(a, length), _widen(b, length)
        if left is a:
            left = a.copy()
        if right is b:
            right = b.copy()
        queue.append((left.T if transpose_a else left, right.T if transpose_b else right))
        for lost in hidden:
            lost.fill(POISON)

    return stage


def _stage_out(
    queue: deque[tuple[AnyArray, AnyArray]], c: AnyArray, init: object, sums: Sums
) -> None:
    a, b = queue.popleft()
    _accumulate(a, b, c, init, sums)


#: K elements that `gemm_v0` moves into L0 at a time; two such pieces alternate.
_STAGE_K = 128


def _stage_bytes(view: View, k: int) -> int:
    """Bytes of L0A or L0B that one operand passes through: one piece, or two when K is longer."""
    outer = view.count // k
    pieces = -(-k // _STAGE_K)
    if pieces == 1:
        return outer * k * view.itemsize
    last = k - (pieces - 1) * _STAGE_K if pieces == 2 else _STAGE_K
    return outer * (_STAGE_K + last) * view.itemsize


def _hidden_stages(
    stmt: ir.TileOp, a: View, b: View, k: int, context: LoweringContext
) -> list[View]:
    """The parts of L0A and L0B that belong to buffers of the kernel and are overwritten."""
    views = []
    for view, memory in ((a, "L0A"), (b, "L0B")):
        needed = _stage_bytes(view, k)
        limit = context.soc.capacity(memory)
        if needed > limit:
            context.note(
                "AI-MEM-001",
                "error",
                f"{stmt.op} passes {view.buffer.name} through {needed} bytes of {memory}, {limit} "
                "exist; use smaller tiles",
                stmt,
            )
        size = min(needed, context.stage_bytes.get(memory, 0))
        if size:
            hidden = ir.Buffer(f"{memory} of {stmt.op}", memory.lower(), (size,), "uint8", stmt.loc)
            views.append(View(hidden, ir.Const(0, "int32"), 1, size, size, flat=True))
    return views


#: The flags that the library routine uses.
_EVENTS = (
    ("MTE2", "MTE1", 0),
    ("FIX", "M", 0),
    ("M", "MTE1", 0),
    ("M", "MTE1", 1),
    ("MTE1", "M", 0),
    ("MTE1", "M", 1),
    ("MTE1", "MTE2", 0),
    ("M", "FIX", 0),
)


@lowers("gemm_v0")
def lower_gemm(stmt: ir.TileOp, context: LoweringContext) -> Instruction:
    """`gemm_v0(A_L1, B_L1, C_L0C)`: streams through L0A and L0B and fences its own pipes.

    The library routine waits for MTE2 and FIX before it starts, and makes MTE2 and FIX wait for it.
    """
    a, b, c = (tile_view(o, stmt.loc) for o in stmt.operands[:3])
    require_scopes(stmt, (a, b, c), ("l1", "l1", "l0c"))
    transpose_a = bool(stmt.attrs.get("transpose_A", False))
    transpose_b = bool(stmt.attrs.get("transpose_B", False))
    m, k = (a.cols, a.rows) if transpose_a else (a.rows, a.cols)
    k_b, n = (b.cols, b.rows) if transpose_b else (b.rows, b.cols)
    check_product(stmt, a, b, c, (m, k, k_b, n), context)
    init = ir.as_expr(stmt.attrs.get("init", False))  # type: ignore[arg-type]
    queue = StageQueue()
    hidden = _hidden_stages(stmt, a, b, k, context)
    load = Instruction(
        op=stmt.op,
        pipe="MTE1",
        kernel=_stage_in(transpose_a, transpose_b),
        args=(a, b, queue, *hidden),
        reads=(a, b),
        writes=tuple(hidden),
        clobbers=tuple(hidden),
        cycles=cost.move("MTE1", a.count * a.itemsize + b.count * b.itemsize),
        fences_before=(("MTE2", "MTE1"), ("FIX", "M"), ("M", "MTE1")),
        events=_EVENTS,
        fences_after=(("MTE1", "M"),),
    )
    multiply = Instruction(
        op=stmt.op,
        pipe="M",
        kernel=_stage_out,
        args=(queue, c, init, _ACCUMULATORS),
        data_reads=(a, b),
        reads_unless=_accumulator(init, c),
        writes=(c,),
        cycles=cost.cube(m, n, k, a.itemsize),
        arithmetic=cost.product(m, n, k, a.buffer.dtype, a.itemsize),
        taint=_product_taint(transpose_a, transpose_b),
        fences_after=(("M", "MTE1"), ("MTE1", "MTE2"), ("M", "FIX")),
    )
    return Instruction(
        op=stmt.op,
        pipe="M",
        kernel=_stage_out,
        args=(),
        stages=(load, multiply),
    )
