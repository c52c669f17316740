"""Scope inference: which memory `alloc_shared` and `alloc_fragment` buffers live in.

The compiler decides by use, before anything else is known about the kernel:

  fragment   its position in a matrix operation: first operand L0A, second L0B, third L0C;
             L0C if none
  shared     used by a matrix operation -> L1; only by other tile operations -> UB;
             only copied or dumped -> L1 when it feeds L0A or L0B, otherwise UB;
             finally, the destination of a copy from UB that has no other role -> UB

Element accesses, `T.Parallel` bodies and atomic adds are not looked at, so a shared buffer that
nothing else touches stays in L1; that surprises people, hence a warning.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field

from kernels_npu.sim import ir
from kernels_npu.sim.passes.notes import Note
from kernels_npu.sim.passes.rewriting import loads, operand_buffer, root_of, substitute_buffers

#: Operations whose operands take cube roles.
MATRIX_OPS = frozenset({"gemm_v0", "gemm_v1", "mma"})

#: Operations that the compiler does not count as a vector use of their operands.
_MOVES = frozenset({"copy", "atomic_add"})

_FRAGMENT_SCOPES = ("l0a", "l0b", "l0c")


@dataclass(kw_only=True)
class _Uses:
    """How one allocation is used."""

    cube: bool = False
    vector: bool = False
    dumped: bool = False
    matrix_positions: set[int] = field(default_factory=set)
    copied_to: list[ir.Buffer] = field(default_factory=list)
    copied: bool = False
    element_access: bool = False


def infer_scopes(func: ir.PrimFunc) -> tuple[ir.PrimFunc, tuple[Note, ...]]:
    """`func` with every `shared` and `fragment` buffer in a real memory, and what is worth saying.

    Returns `func` itself when no buffer needs inference.
    """
    pending = [b for b in func.allocs if b.scope in ("shared", "fragment") and b.alias_of is None]
    if not pending:
        return func, ()
    uses, copies = _collect(func)
    scopes = {buffer: buffer.scope for buffer in func.allocs}
    for buffer in pending:
        if buffer.scope == "fragment":
            scopes[buffer] = _fragment_scope(uses.get(buffer, _Uses()))
    for buffer in pending:
        if buffer.scope == "shared":
            scopes[buffer] = _shared_scope(uses.get(buffer), scopes)
    for source, destination in copies:
        if scopes.get(source) != "ub" or destination.scope != "shared":
            continue
        use = uses[destination]
        if not use.cube and not use.vector:
            scopes[destination] = "ub"
    mapping = {b: dataclasses.replace(b, scope=scopes[b]) for b in pending}
    notes = tuple(_surprises(pending, scopes, uses, func))
    return substitute_buffers(func, mapping), notes


def _collect(
    func: ir.PrimFunc,
) -> tuple[dict[ir.Buffer, _Uses], list[tuple[ir.Buffer, ir.Buffer]]]:
    uses: dict[ir.Buffer, _Uses] = {}
    copies: list[tuple[ir.Buffer, ir.Buffer]] = []

    def use_of(buffer: ir.Buffer) -> _Uses:
        return uses.setdefault(root_of(buffer), _Uses())

    for stmt in ir.walk(func.body):
        for load in loads(stmt):
            use_of(load.buffer).element_access = True
        if isinstance(stmt, ir.Store):
            use_of(stmt.buffer).element_access = True
        if not isinstance(stmt, ir.TileOp):
            continue
        buffers = [operand_buffer(operand) for operand in stmt.operands]
        if stmt.op == "copy" and buffers[0] is not None and buffers[1] is not None:
            source, destination = root_of(buffers[0]), root_of(buffers[1])
            copies.append((source, destination))
            use_of(source).copied_to.append(destination)
            use_of(source).copied = use_of(destination).copied = True
            continue
        for position, buffer in enumerate(buffers):
            if buffer is None or stmt.op in _MOVES:
                continue
            use = use_of(buffer)
            if stmt.op in MATRIX_OPS:
                use.cube = True
                use.matrix_positions.add(position)
            else:
                use.vector = True
    return uses, copies


def _fragment_scope(use: _Uses) -> str:
    for position, scope in enumerate(_FRAGMENT_SCOPES):
        if position in use.matrix_positions:
            return scope
    return "l0c"


def _shared_scope(use: _Uses | None, scopes: dict[ir.Buffer, str]) -> str:
    if use is None or use.cube:
        return "l1"
    if use.vector:
        return "ub"
    if not use.copied:
        return "l1"
    feeds_l0 = any(scopes.get(target) in ("l0a", "l0b") for target in use.copied_to)
    return "l1" if feeds_l0 else "ub"


def _surprises(
    pending: list[ir.Buffer],
    scopes: dict[ir.Buffer, str],
    uses: dict[ir.Buffer, _Uses],
    func: ir.PrimFunc,
) -> Iterator[Note]:
    for buffer in pending:
        use = uses.get(buffer)
        if use is None or scopes[buffer] != "l1" or not use.element_access:
            continue
        yield Note(
            code="AI-MEM-010",
            severity="warning",
            message=(
                f"alloc_shared buffer {buffer.name!r} is inferred to L1, where element accesses "
                "have no effect on hardware; the compiler does not look at element accesses "
                "or T.Parallel when it infers a scope; use alloc_ub"
            ),
            loc=buffer.loc or func.loc,
        )
