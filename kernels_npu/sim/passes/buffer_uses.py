"""Which statements read and write the destination of a copy between core types.

The compiler sees tile operations only, and of those the operands that are not the destination.
"""

from __future__ import annotations

from collections.abc import Iterator

from kernels_npu.sim import ir
from kernels_npu.sim.passes.ownership import VIRTUAL_PATHS, copy_scopes
from kernels_npu.sim.passes.parallel_lowering import lower_parallel
from kernels_npu.sim.passes.rewriting import loads, operand_buffer, root_of

#: Operations whose destination is an operand other than the first.
_DESTINATION = {
    "copy": 1,
    "reduce_sum": 1,
    "reduce_max": 1,
    "reduce_min": 1,
    "gemm_v0": 2,
    "mma": 2,
}

#: Operations that add to their destination; the compiler takes it for written only.
_ACCUMULATING = frozenset({"axpy", "mul_add_dst"})


def _destinations(op: ir.TileOp) -> Iterator[ir.Buffer]:
    buffer = operand_buffer(op.operands[_DESTINATION.get(op.op, 0)]) if op.operands else None
    if buffer is not None:
        yield root_of(buffer)


def _sources(op: ir.TileOp) -> Iterator[ir.Buffer]:
    skipped = _DESTINATION.get(op.op, 0)
    for position, operand in enumerate(op.operands):
        buffer = operand_buffer(operand)
        if buffer is not None and position != skipped:
            yield root_of(buffer)


def reads(stmt: ir.Stmt, root: ir.Buffer) -> bool:
    """Whether `stmt` needs what is in the buffer `root`, by the program's meaning."""
    if isinstance(stmt, ir.TileOp):
        if root in _sources(stmt):
            return True
        accumulates = stmt.op in _ACCUMULATING or stmt.attrs.get("clear") is False
        if accumulates and root in _destinations(stmt):
            return True
    if isinstance(stmt, ir.Parallel):
        return any(reads(inner, root) for inner in ir.walk(stmt.body))
    return any(root_of(load.buffer) is root for load in loads(stmt))


def compiler_reads(stmt: ir.Stmt, root: ir.Buffer) -> bool:
    """Whether the compiler takes `stmt` for a reader of `root`."""
    if isinstance(stmt, ir.TileOp):
        return root in _sources(stmt)
    if isinstance(stmt, ir.Parallel):
        return reads(stmt, root) and lower_parallel(stmt) is not None
    return False


def writes(stmt: ir.Stmt, root: ir.Buffer) -> bool:
    """Whether `stmt` changes `root`; a copy between core types does so by its load."""
    if isinstance(stmt, ir.TileOp):
        channel = stmt.op == "copy" and copy_scopes(stmt) in VIRTUAL_PATHS
        return not channel and root in _destinations(stmt)
    return isinstance(stmt, ir.Store) and root_of(stmt.buffer) is root


def reloads(stmt: ir.Stmt, root: ir.Buffer) -> bool:
    """Whether the compiler's row loop for `stmt` writes the buffer that it loads inside."""
    if not isinstance(stmt, ir.Parallel):
        return False
    lowered = lower_parallel(stmt)
    in_rows = lowered is not None and lowered.row_loop is not None
    return in_rows and any(writes(inner, root) for inner in ir.walk(stmt.body))
