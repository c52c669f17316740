"""`T.Parallel`: which loops run as NumPy expressions, and what those expressions call.

The compiler turns a loop into vector instructions, each statement over the whole index space, or,
when no pattern fits, into a loop of element assignments by the scalar unit. The latter runs as
NumPy expressions too, unless an iteration depends on another one.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernels_npu.sim import ir
from kernels_npu.sim.machine.expressions import loads_of, parts_of
from kernels_npu.sim.machine.operands import strides_of
from kernels_npu.sim.passes.parallel_lowering import lower_parallel
from kernels_npu.sim.passes.rewriting import root_of


@dataclass(frozen=True)
class MaskedStore:
    """One assignment of a `T.Parallel` body with the conditions around it."""

    store: ir.Store
    conditions: tuple[ir.Expr, ...]


@dataclass(frozen=True)
class ParallelPlan:
    """How a loop runs. vector: as vector instructions, otherwise by the scalar unit."""

    stores: tuple[MaskedStore, ...]
    vector: bool


def plan_parallel(loop: ir.Parallel) -> ParallelPlan | None:
    """The statements of `loop`, each to run over the whole index space; None to run it serially."""
    stores = _flatten(loop.body)
    if stores is None or any(item.store.buffer.scope == "var" for item in stores):
        return None
    vector = lower_parallel(loop) is not None and not _indirect(stores)
    independent = _independent if not vector else _well_defined
    return ParallelPlan(tuple(stores), vector) if independent(stores, loop) else None


def as_serial(loop: ir.Parallel) -> tuple[ir.Stmt, ...]:
    """The loop nest that runs `loop` element by element."""
    body = loop.body
    for var, extent in zip(reversed(loop.vars), reversed(loop.extents)):
        body = (
            ir.For(
                loc=loop.loc,
                var=var,
                start=ir.Const(0, "int32"),
                stop=ir.Const(extent, "int32"),
                body=body,
            ),
        )
    return body


def _flatten(
    body: tuple[ir.Stmt, ...], conditions: tuple[ir.Expr, ...] = ()
) -> list[MaskedStore] | None:
    """The assignments of a body; None when it holds anything but assignments and branches."""
    found: list[MaskedStore] = []
    for stmt in body:
        if isinstance(stmt, ir.Store):
            found.append(MaskedStore(stmt, conditions))
            continue
        if not isinstance(stmt, ir.If):
            return None
        for branch, extra in ((stmt.then, stmt.cond), (stmt.orelse, ir.unary("not", stmt.cond))):
            nested = _flatten(branch, (*conditions, extra))
            if nested is None:
                return None
            found += nested
    return found


# --------------------------------------------------------------------------- dependences


def _indirect(stores: list[MaskedStore]) -> bool:
    """Whether an index is itself read from memory."""
    return any(
        loads_of(index)
        for item in stores
        for indices in [item.store.indices, *(load.indices for load in _loads(item))]
        for index in indices
    )


def _loads(item: MaskedStore) -> list[ir.Load]:
    expressions = [item.store.value, *item.store.indices, *item.conditions]
    return [load for expr in expressions for load in loads_of(expr)]


def _well_defined(stores: list[MaskedStore], loop: ir.Parallel) -> bool:
    """A statement that updates an element must not meet the same element in two iterations."""
    return all(
        not any(load.buffer is item.store.buffer for load in _loads(item))
        or _injective(item.store, loop)
        for item in stores
    )


def _independent(stores: list[MaskedStore], loop: ir.Parallel) -> bool:
    """Whether no iteration reads what another one writes, so that the order does not matter."""
    written: dict[ir.Buffer, list[ir.Store]] = {}
    for item in stores:
        written.setdefault(root_of(item.store.buffer), []).append(item.store)
    for item in stores:
        for load in _loads(item):
            for store in written.get(root_of(load.buffer), []):
                same = store.buffer is load.buffer and _same(store.indices, load.indices)
                if not same or not _injective(store, loop):
                    return False
    # Several statements may write the same element only in the same iteration.
    return all(
        len(several) == 1
        or (
            all(s.buffer is several[0].buffer for s in several)
            and all(_same(s.indices, several[0].indices) for s in several)
            and _injective(several[0], loop)
        )
        for several in written.values()
    )


def _same(a: tuple[ir.Expr, ...], b: tuple[ir.Expr, ...]) -> bool:
    return len(a) == len(b) and all(_equal(x, y) for x, y in zip(a, b))


def _equal(a: ir.Expr, b: ir.Expr) -> bool:
    """Whether two expressions are built alike."""
    if a is b:
        return True
    if type(a) is not type(b) or a.dtype != b.dtype or isinstance(a, ir.Var):
        return False
    if isinstance(a, ir.Const) and isinstance(b, ir.Const):
        return a.value == b.value
    if getattr(a, "op", None) != getattr(b, "op", None):
        return False
    if isinstance(a, ir.Load) and isinstance(b, ir.Load) and a.buffer is not b.buffer:
        return False
    return _same(tuple(parts_of(a)), tuple(parts_of(b)))


def _injective(store: ir.Store, loop: ir.Parallel) -> bool:
    """Whether different iterations provably store to different elements."""
    extents = dict(zip((v.uid for v in loop.vars), loop.extents))
    sizes = [d if isinstance(d, int) else 1 << 40 for d in store.buffer.shape]
    steps = dict.fromkeys(extents, 0)
    for index, stride in zip(store.indices, strides_of(tuple(sizes))):
        factors = affine_factors(index, set(extents))
        if factors is None:
            return False
        for uid, factor in factors.items():
            steps[uid] += factor * stride
    reach = 1
    for step, extent in sorted((abs(steps[uid]), extent) for uid, extent in extents.items()):
        if extent > 1 and step < reach:
            return False
        reach = max(reach, step * (extent - 1) + reach)
    return True


def affine_factors(expr: ir.Expr, loop_vars: set[int]) -> dict[int, int] | None:
    """Coefficients of the loop variables in `expr`, when the rest of it does not depend on them."""
    if isinstance(expr, ir.Var):
        return {expr.uid: 1} if expr.uid in loop_vars else {}
    if isinstance(expr, ir.Binary) and expr.op in ("add", "sub"):
        a, b = (affine_factors(e, loop_vars) for e in (expr.a, expr.b))
        if a is None or b is None:
            return None
        sign = 1 if expr.op == "add" else -1
        return {uid: a.get(uid, 0) + sign * b.get(uid, 0) for uid in {*a, *b}}
    if isinstance(expr, ir.Binary) and expr.op == "mul":
        for constant, other in ((expr.a, expr.b), (expr.b, expr.a)):
            factors = affine_factors(other, loop_vars)
            if isinstance(constant, ir.Const) and factors is not None:
                return {uid: f * int(constant.value) for uid, f in factors.items()}
    return {} if not mentions(expr, loop_vars) else None


def mentions(expr: ir.Expr, loop_vars: set[int]) -> bool:
    """Whether a loop variable occurs in `expr`."""
    if isinstance(expr, ir.Var):
        return expr.uid in loop_vars
    return any(mentions(part, loop_vars) for part in parts_of(expr))


# --------------------------------------------------------------------------- boxes


@dataclass(frozen=True)
class Box:
    """What an access covers from its first element on: rows x cols elements, rows `pitch` apart."""

    rows: int
    cols: int
    pitch: int


def box_of(
    indices: tuple[ir.Expr, ...], shape: tuple[ir.Expr | int, ...], loop: ir.Parallel
) -> Box | None:
    """The elements that an access reaches, when they form a box with ascending steps."""
    if not all(isinstance(d, (int, ir.Const)) for d in shape[1:]):
        return None
    sizes = tuple(1 if i == 0 else int(ir.as_expr(d).value) for i, d in enumerate(shape))  # type: ignore[attr-defined]
    extents = dict(zip((v.uid for v in loop.vars), loop.extents))
    steps: dict[int, int] = {}
    for index, stride in zip(indices, strides_of(sizes)):
        factors = affine_factors(index, set(extents))
        if factors is None:
            return None
        for uid, factor in factors.items():
            steps[uid] = steps.get(uid, 0) + factor * stride
    moving = sorted((s, extents[u]) for u, s in steps.items() if s != 0 and extents[u] > 1)
    if any(step < 0 for step, _ in moving):
        return None
    if not moving:
        return Box(1, 1, 1)
    step, extent = moving[0]
    if step == 1:
        cols, rest = extent, moving[1:]
    else:
        cols, rest = 1, moving
    if len(rest) > 1 or (rest and rest[0][0] < cols):
        return None
    return Box(rest[0][1], cols, rest[0][0]) if rest else Box(1, cols, cols)


def at_origin(expr: ir.Expr, loop_vars: set[int]) -> ir.Expr:
    """An affine `expr` with all loop variables 0."""
    if isinstance(expr, ir.Var):
        return ir.Const(0, expr.dtype) if expr.uid in loop_vars else expr
    if isinstance(expr, ir.Binary) and mentions(expr, loop_vars):
        return ir.binary(expr.op, at_origin(expr.a, loop_vars), at_origin(expr.b, loop_vars))
    return expr


def slices_of(indices: tuple[ir.Expr, ...], loop: ir.Parallel) -> list[int | None] | None:
    """Per dimension the position of the loop variable along it; None unless all are simple.

    Simple: each index is loop-invariant or one variable plus something loop-invariant, and the
    variables stand in the order of the loop.
    """
    order = {var.uid: position for position, var in enumerate(loop.vars)}
    found: list[int | None] = []
    last = -1
    for index in indices:
        factors = affine_factors(index, set(order))
        if factors is None:
            return None
        moving = [(order[uid], factor) for uid, factor in factors.items() if factor]
        if not moving:
            found.append(None)
            continue
        if len(moving) > 1 or moving[0][1] != 1 or moving[0][0] <= last:
            return None
        last = moving[0][0]
        found.append(last)
    return found
