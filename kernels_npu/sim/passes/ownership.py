"""Which core type an operation belongs to.

A statement is owned by `cube` (AIC) or `vector` (AIV), or by `both`: control flow, bindings,
flags, barriers, printing, element stores to global memory and to scalar registers run wherever
they are reached.
"""

from __future__ import annotations

from kernels_npu.sim import ir
from kernels_npu.sim.passes.rewriting import loads, operand_buffer

CUBE = "cube"
VECTOR = "vector"
BOTH = "both"
CORES = (CUBE, VECTOR)

_CORE_OF_SCOPE = {"ub": VECTOR, "l1": CUBE, "l0a": CUBE, "l0b": CUBE, "l0c": CUBE}

#: On-chip scopes whose elements a core cannot read.
FOREIGN_SCOPES = {CUBE: frozenset({"ub"}), VECTOR: frozenset({"l1", "l0a", "l0b", "l0c"})}

#: (source, destination) scopes that `T.copy` can lower to an instruction of one core.
_COPY_PATHS = {
    ("global", "l1"): CUBE,
    ("l1", "l0a"): CUBE,
    ("l1", "l0b"): CUBE,
    ("l0c", "global"): CUBE,
    ("l0c", "l1"): CUBE,
    ("global", "ub"): VECTOR,
    ("ub", "global"): VECTOR,
    ("ub", "ub"): VECTOR,
}

#: Copies that need a round trip through an automatic workspace in global memory.
VIRTUAL_PATHS = frozenset({("ub", "l1"), ("l0c", "ub")})


def other_core(core: str) -> str:
    """The core type that is not `core`."""
    return VECTOR if core == CUBE else CUBE


def copy_scopes(op: ir.TileOp) -> tuple[str, str] | None:
    """Source and destination scope of a copy; None when an operand is no buffer."""
    source, destination = (operand_buffer(operand) for operand in op.operands[:2])
    if source is None or destination is None:
        return None
    return source.scope, destination.scope


def tile_op_owner(op: ir.TileOp) -> str:
    """The owner of a tile operation by its kind, then by its first on-chip operand."""
    if op.op == "printf":
        return BOTH
    if op.op == "copy":
        scopes = copy_scopes(op)
        path = _COPY_PATHS.get(scopes) if scopes is not None else None
        if path is not None:
            return path
    if op.op == "atomic_add":
        source = operand_buffer(op.operands[1])
        return _CORE_OF_SCOPE.get(source.scope, BOTH) if source is not None else BOTH
    return first_on_chip_owner(op)


def first_on_chip_owner(op: ir.TileOp) -> str:
    """The core of the first operand that lives on chip; `both` when none does."""
    for operand in op.operands:
        buffer = operand_buffer(operand)
        if buffer is not None and buffer.scope in _CORE_OF_SCOPE:
            return _CORE_OF_SCOPE[buffer.scope]
    return BOTH


def store_owner(store: ir.Store) -> str:
    """The owner of an element store outside `T.Parallel`."""
    return _CORE_OF_SCOPE.get(store.buffer.scope, BOTH)


def parallel_store_owner(store: ir.Store) -> str:
    """The owner of a store inside `T.Parallel`, which becomes a copy or vector instructions.

    To global memory it is a fixpipe store when the source is L0C and otherwise goes through UB.
    """
    if store.buffer.scope != "global":
        return store_owner(store)
    return CUBE if any(load.buffer.scope == "l0c" for load in loads(store)) else VECTOR
