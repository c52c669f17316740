"""The statements of a pipelined loop as the compiler has them when it pipelines.

By then bindings of pure integers are substituted into their uses. A binding that reads memory
still stands, and everything behind it is nested in it: one statement for the pipeline.
"""

from __future__ import annotations

from kernels_npu.sim import ir
from kernels_npu.sim.passes.rewriting import loads
from kernels_npu.sim.passes.substitution import Body, Substitution


def statements(body: Body, origin: dict[ir.Stmt, ir.Stmt]) -> list[Body]:
    """The units of `body`, each one statement or a binding with all that follows it."""
    units: list[Body] = []
    pure: dict[ir.Var, ir.Expr] = {}
    for position, stmt in enumerate(body):
        if isinstance(stmt, ir.Let) and not is_kept(stmt):
            pure[stmt.var] = Substitution(variables=pure).expr(stmt.value)
            continue
        substitution = Substitution(variables=dict(pure), origin=origin)
        if isinstance(stmt, ir.Let):
            units.append(substitution.body(body[position:]))
            break
        units.append((stmt,) if not pure else substitution.body((stmt,)))
    return units


def is_kept(let: ir.Let) -> bool:
    """Whether a binding survives simplification: it reads memory, or is no integer."""
    if any(True for _ in loads(let)):
        return True
    return not isinstance(let.value, (ir.Const, ir.Var)) and "int" not in let.value.dtype
