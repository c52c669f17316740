"""Which hidden buffers the compiler needs to turn `T.Parallel` into vector instructions.

The simulator executes a `T.Parallel` by its meaning. The compiler decomposes each assignment into
vector instructions with intermediate buffers in UB; only their sizes and the order of touches
matter here:

  * an assignment to global memory computes into a UB tile first;
  * an operand that is itself an operation gets an intermediate of the destination's dtype;
  * a 1-D operand inside a 2-D assignment without any 2-D operand is broadcast into a tile, with a
    byte workspace of twice the element count;
  * what matches none of the patterns falls back to a loop of element assignments.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kernels_npu.errors import KernelSourceError
from kernels_npu.sim import ir
from kernels_npu.sim.passes.rewriting import loads, static_int, subexpressions

_BINARY = frozenset({"add", "sub", "mul", "div", "min", "max", "bitand", "bitor", "shl", "shr"})
_UNARY = frozenset({"exp", "log", "sqrt", "rsqrt", "abs", "bitnot"})


@dataclass(frozen=True, kw_only=True)
class ParallelLowering:
    """The instructions as tuples of touched buffers, and the buffers added for them.

    `row_loop` is set when the instructions run once per row in a loop of the compiler's own.
    """

    operations: tuple[tuple[ir.Buffer, ...], ...]
    added: tuple[ir.Buffer, ...]
    row_loop: ir.Var | None = None


@dataclass(kw_only=True)
class _Plan:
    """How one `T.Parallel` is vectorised."""

    vector: ir.Var
    outer: ir.Var | None
    vector_extent: int
    total: int
    two_d: bool = False
    operations: list[tuple[ir.Buffer, ...]] = field(default_factory=list)
    added: list[ir.Buffer] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return self.total // self.vector_extent


class _NotVectorisable(Exception):
    """The assignment matches no pattern."""


def lower_parallel(loop: ir.Parallel) -> ParallelLowering | None:
    """The vector instructions of `loop`, or None when it becomes a loop of element assignments.

    Raises:
        KernelSourceError: AI-SRC-045 for three or more dimensions, which the compiler rejects.
    """
    if len(loop.vars) > 2:
        raise KernelSourceError(
            "AI-SRC-045",
            f"T.Parallel over {len(loop.vars)} dimensions",
            where=loop.loc,
            rule="the adapter compiler vectorises 1-D and 2-D T.Parallel only",
            fix="put a T.serial loop around a 2-D T.Parallel",
        )
    total = 1
    for extent in loop.extents:
        total *= extent
    plan = _Plan(
        vector=loop.vars[-1],
        outer=loop.vars[0] if len(loop.vars) == 2 else None,
        vector_extent=loop.extents[-1],
        total=total,
    )
    stores = [stmt for stmt in loop.body if isinstance(stmt, ir.Store)]
    if not stores or len(stores) != len(loop.body) or not all(_fits(s, plan) for s in stores):
        return None
    plan.two_d = _indexes_rows(stores[0], plan) and all(_supports_2d(s, plan) for s in stores)
    try:
        for store in stores:
            _lower_store(store, plan)
    except _NotVectorisable:
        return None
    per_row = plan.outer is not None and not plan.two_d and plan.rows > 1
    return ParallelLowering(
        operations=tuple(plan.operations),
        added=tuple(plan.added),
        row_loop=plan.outer if per_row else None,
    )


# --------------------------------------------------------------------------- patterns


def _mentions(expr: ir.Expr, var: ir.Var | None) -> bool:
    return var is not None and any(part is var for part in subexpressions(expr))


def _fits(store: ir.Store, plan: _Plan) -> bool:
    """The last index of the destination runs along the vector dimension."""
    rank = len(store.buffer.shape)
    if rank not in (1, 2, 3) or len(store.indices) != rank:
        return False
    if not _mentions(store.indices[-1], plan.vector):
        return rank == 2 and store.buffer.scope == "l1"
    return plan.total > 0


def _indexes_rows(store: ir.Store, plan: _Plan) -> bool:
    return len(store.indices) > 1 and _mentions(store.indices[-2], plan.outer)


def _supports_2d(store: ir.Store, plan: _Plan) -> bool:
    """All operands cover both dimensions, or none is 2-D and the 1-D ones can be broadcast."""
    if plan.outer is None:
        return False
    sources = list(loads(ir.Let(loc=store.loc, var=plan.vector, value=store.value)))
    has_2d = any(len(load.buffer.shape) == 2 for load in sources)
    for load in sources:
        both = all(
            any(_mentions(index, var) for index in load.indices)
            for var in (plan.vector, plan.outer)
        )
        if not both and (has_2d or not _broadcasts(load, plan)):
            return False
    return True


def _broadcasts(load: ir.Load, plan: _Plan) -> bool:
    if len(load.buffer.shape) != 1:
        return False
    return load.indices[0] is plan.vector or load.indices[0] is plan.outer


# --------------------------------------------------------------------------- instructions


def _lower_store(store: ir.Store, plan: _Plan) -> None:
    value = store.value
    destination = store.buffer
    from_l0c = isinstance(value, ir.Cast) and _scope(value.a) == "l0c"
    staged = destination.scope == "global" and not from_l0c
    if staged:
        destination = _scratch(store.buffer, plan, plan.total)
    replaced = _broadcast_operands(value, plan) if plan.two_d else {}
    count = plan.total if plan.two_d else plan.vector_extent
    _decompose(value, destination, plan, count, replaced)
    if staged:
        plan.operations.append((destination,))


def _scope(expr: ir.Expr) -> str | None:
    return expr.buffer.scope if isinstance(expr, ir.Load) else None


def _scratch(like: ir.Buffer, plan: _Plan, count: int) -> ir.Buffer:
    width = plan.vector_extent
    shape = (count,) if len(like.shape) == 1 else (count // width, width)
    buffer = ir.Buffer(f"{like.name}_tmp_{len(plan.added)}", "ub", shape, like.dtype, like.loc)
    plan.added.append(buffer)
    return buffer


def _broadcast_operands(value: ir.Expr, plan: _Plan) -> dict[ir.Load, ir.Buffer]:
    sources = [part for part in subexpressions(value) if isinstance(part, ir.Load)]
    if any(len(load.buffer.shape) == 2 for load in sources):
        return {}
    replaced: dict[ir.Load, ir.Buffer] = {}
    for load in sources:
        if not _broadcasts(load, plan):
            continue
        shape = (plan.rows, plan.vector_extent)
        tile = ir.Buffer(
            f"{load.buffer.name}_broadcast_{len(plan.added)}", "ub", shape, load.buffer.dtype
        )
        workspace = ir.Buffer(
            f"broadcast_workspace_{len(plan.added)}", "ub", (2 * plan.total,), "uint8"
        )
        plan.added += [tile, workspace]
        plan.operations.append((tile, load.buffer, workspace))
        replaced[load] = tile
    return replaced


def _decompose(
    value: ir.Expr,
    destination: ir.Buffer,
    plan: _Plan,
    count: int,
    replaced: dict[ir.Load, ir.Buffer],
) -> None:
    """Append the instructions that leave `value` in `destination`."""

    def source(load: ir.Load) -> ir.Buffer:
        return replaced.get(load, load.buffer)

    moved = value.a if isinstance(value, ir.Cast) else value
    if isinstance(moved, ir.Load):
        if not isinstance(value, ir.Cast) and _repacks_rows(source(moved), destination):
            raise _NotVectorisable
        plan.operations.append((source(moved), destination))
        return
    single = _unary_source(value)
    if single is not None:
        plan.operations.append((destination, source(single)))
        return
    if not (isinstance(value, ir.Binary) and value.op in _BINARY):
        raise _NotVectorisable
    left, right = value.a, value.b
    if _is_operation(left):
        scratch = _scratch(destination, plan, count)
        first: tuple[ir.Buffer, ...] = (scratch,)
        if _is_operation(right):
            other = _scratch(destination, plan, count)
            _decompose(left, scratch, plan, count, replaced)
            _decompose(right, other, plan, count, replaced)
            plan.operations.append((destination, scratch, other))
            return
        _decompose(left, scratch, plan, count, replaced)
    elif isinstance(left, ir.Load):
        first = (source(left),)
    else:
        raise _NotVectorisable
    if isinstance(right, ir.Load):
        plan.operations.append((destination, *first, source(right)))
    elif isinstance(right, (ir.Const, ir.Var)):
        plan.operations.append((destination, *first))
    elif _is_operation(right):
        scratch = _scratch(destination, plan, count)
        _decompose(right, scratch, plan, count, replaced)
        plan.operations.append((destination, *first, scratch))
    else:
        raise _NotVectorisable


def _is_operation(expr: ir.Expr) -> bool:
    if isinstance(expr, ir.Binary):
        return expr.op in _BINARY
    return _unary_source(expr) is not None


def _unary_source(expr: ir.Expr) -> ir.Load | None:
    """The operand of an expression that is one unary instruction; `max(x, 0)` is relu."""
    if isinstance(expr, ir.Unary) and expr.op in _UNARY and isinstance(expr.a, ir.Load):
        return expr.a
    if isinstance(expr, ir.Binary) and expr.op == "max":
        for zero, other in ((expr.a, expr.b), (expr.b, expr.a)):
            if isinstance(zero, ir.Const) and not zero.value and isinstance(other, ir.Load):
                return other
    return None


def _repacks_rows(source: ir.Buffer, destination: ir.Buffer) -> bool:
    """A copy within UB between tiles of different width is not one instruction."""
    if source.scope != "ub" or destination.scope != "ub":
        return False
    if len(source.shape) < 2 or len(destination.shape) < 2:
        return False
    return static_int(source.shape[-1]) != static_int(destination.shape[-1])
