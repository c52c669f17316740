"""What the compiler's pass for `threads=2` really does, where that differs from `reduction`.

The pass works on calls, not on rows: it halves the first dimension of *every* UB buffer that does
not gather, the count of *some* operations whose first halved operand starts at element 0, the
iterations of loops whose variable it recognises as a first index, and it moves the dimension of a
tensor that lies at the tile's first dimension, counted from the last.
"""

from __future__ import annotations

from collections.abc import Iterator

from kernels_npu.sim import ir
from kernels_npu.sim.passes.rewriting import (
    element_count,
    operand_buffer,
    root_of,
    static_int,
    subexpressions,
)
from kernels_npu.sim.passes.vector_split.analysis import (
    CORES,
    VidSplit,
    accesses,
    indices,
    is_ub,
    loop_of_index,
)

#: The operations whose element count the pass halves.
HALVED_COUNTS = frozenset(
    {
        "add",
        "sub",
        "mul",
        "div",
        "max",
        "min",
        "bitwise_and",
        "bitwise_or",
        "bitwise_not",
        "bitwise_lshift",
        "bitwise_rshift",
        "exp",
        "ln",
        "abs",
        "reciprocal",
        "sqrt",
        "rsqrt",
        "relu",
        "leaky_relu",
        "axpy",
        "compare",
        "sin",
        "cos",
        "fill",
    }
)


def is_halved(operand: ir.Operand, split: VidSplit) -> bool:
    """Whether the compiler halves the buffer of `operand`, meant or not."""
    buffer = operand_buffer(operand)
    return buffer is not None and is_ub(buffer) and root_of(buffer) in split.halved


def halves_count(op: ir.TileOp, split: VidSplit) -> bool:
    """Whether the pass halves the element count of `op`."""
    if op.op not in HALVED_COUNTS:
        return False
    pointers = [o for o in op.operands if not isinstance(o, ir.Load)]
    first = next((o for o in pointers if is_halved(o, split)), None)
    return first is not None and all(static_int(index) == 0 for index in indices(first))


def written_count(op: ir.TileOp) -> int | None:
    """Elements that the user's operation covers: its count, or those of what it computes from."""
    count = op.attrs.get("count")
    if isinstance(count, (int, ir.Expr)) and not isinstance(count, bool):
        return static_int(count)
    sized = op.operands[1] if op.op in ("compare", "gather") else op.operands[0]
    return element_count(sized)


def recognises(var: ir.Var, body: tuple[ir.Stmt, ...], split: VidSplit) -> bool:
    """Whether the pass sees that the loop over `var` runs over rows."""
    for stmt in ir.walk(body):
        copies = isinstance(stmt, ir.TileOp) and stmt.op in ("copy", "atomic_add")
        for access in accesses(stmt):
            if not is_halved(access, split):
                continue
            first = indices(access)[:1]
            if first and first[0] is var and (copies or isinstance(access, ir.Load)):
                return True
            if isinstance(access, ir.Region) and not copies and _is_step(access, var):
                return True
    return False


def _is_step(region: ir.Region, var: ir.Var) -> bool:
    """Whether the start of `region` divided by its length is `var`."""
    extent = static_int(region.extents[0])
    whole_rows = all(
        static_int(taken) == static_int(size)
        for taken, size in zip(region.extents[1:], region.buffer.shape[1:])
    )
    return extent is not None and whole_rows and loop_of_index(region.mins[0], extent) is var


def moved_axis(tensor: ir.Buffer, tile: ir.Buffer) -> int:
    """The dimension of `tensor` to which the pass adds `vid` times half of the tile's rows."""
    return len(tensor.shape) - len(tile.shape)


def moves_row(op: ir.TileOp, near: int, far: int, var: ir.Var, split: VidSplit) -> bool:
    """Whether the tensor's row in a copy inside the row loop over `var` ends up where it should.

    `near` and `far` are the positions of the UB operand and of the other one.
    """
    tile, tensor = operand_buffer(op.operands[near]), operand_buffer(op.operands[far])
    loop = split.loops[var]
    if tile is None or tensor is None:
        return False
    places = [axis for axis, index in enumerate(indices(op.operands[far])) if _mentions(index, var)]
    if len(places) != 1:
        return not places
    index = indices(op.operands[far])[places[0]]
    if is_halved(op.operands[near], split):
        return places[0] == moved_axis(tensor, tile) and is_term(index, var)
    if tensor.scope == "global":
        size = static_int(tensor.shape[places[0]])
        return index is var and size is not None and loop.half * CORES <= size
    # the automatic workspace moves by half of the rows of the L1 tile
    return index is var and static_int(tensor.shape[-2]) == loop.all


def _mentions(expr: ir.Expr, var: ir.Var) -> bool:
    return any(part is var for part in subexpressions(expr))


def is_term(expr: ir.Expr, var: ir.Var) -> bool:
    """Whether `expr` is `var` plus something without it."""
    if isinstance(expr, ir.Binary) and expr.op == "add":
        a, b = _mentions(expr.a, var), _mentions(expr.b, var)
        return is_term(expr.a, var) if a and not b else b and not a and is_term(expr.b, var)
    if isinstance(expr, ir.Binary) and expr.op == "sub":
        return not _mentions(expr.b, var) and is_term(expr.a, var)
    return expr is var


def sides(op: ir.TileOp) -> Iterator[tuple[int, int]]:
    """(UB side, other side) of a copy or atomic addition with one operand outside UB."""
    for near, far in ((0, 1), (1, 0)):
        tile, other = operand_buffer(op.operands[near]), operand_buffer(op.operands[far])
        if tile is not None and other is not None and is_ub(tile) and not is_ub(other):
            yield near, far
