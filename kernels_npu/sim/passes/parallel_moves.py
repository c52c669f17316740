"""`T.Parallel` that only moves a tile between the core types of a block is a copy.

`for i, j in T.Parallel(M, N): ub[i, j] = T.cast(l0c[i, j], "float16")` becomes `T.copy(l0c, ub)`
before anything else looks at it, as in the compiler.
"""

from __future__ import annotations

from kernels_npu.sim import ir
from kernels_npu.sim.passes.ownership import VIRTUAL_PATHS
from kernels_npu.sim.passes.rewriting import Rewriter, static_int


def moves_as_copies(func: ir.PrimFunc) -> ir.PrimFunc:
    """`func` with such loops replaced; scopes must be inferred."""
    if not any(isinstance(stmt, ir.Parallel) and _copy_of(stmt) for stmt in ir.walk(func.body)):
        return func
    return _Moves().func(func)


class _Moves(Rewriter):
    def statement(self, old: ir.Stmt) -> ir.Stmt:
        if isinstance(old, ir.Parallel):
            return _copy_of(old) or old
        return super().statement(old)


def _copy_of(loop: ir.Parallel) -> ir.TileOp | None:
    if len(loop.body) != 1 or not isinstance(loop.body[0], ir.Store):
        return None
    store = loop.body[0]
    value = store.value.a if isinstance(store.value, ir.Cast) else store.value
    if not isinstance(value, ir.Load):
        return None
    if (value.buffer.scope, store.buffer.scope) not in VIRTUAL_PATHS:
        return None
    whole = all(
        len(indices) == len(loop.vars)
        and all(index is var for index, var in zip(indices, loop.vars))
        and tuple(map(static_int, buffer.shape)) == loop.extents
        for buffer, indices in ((store.buffer, store.indices), (value.buffer, value.indices))
    )
    if not whole:
        return None
    return ir.TileOp(loc=store.loc, op="copy", operands=(value.buffer, store.buffer))
