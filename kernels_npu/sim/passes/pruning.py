"""Removing from one core's program what has no effect there.

After the split each program still holds the control flow and bindings of the other core. What
remains must not depend on values that this core cannot read: a cube core cannot read UB, a vector
core cannot read L1 or L0.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from kernels_npu.sim import ir
from kernels_npu.sim.passes.notes import Note
from kernels_npu.sim.passes.ownership import FOREIGN_SCOPES, other_core
from kernels_npu.sim.passes.rewriting import (
    loads,
    static_int,
    variables,
    with_children,
)

Body = tuple[ir.Stmt, ...]

_WORK = (ir.SetCrossFlag, ir.WaitCrossFlag, ir.SyncAll)


def prune(program: Body, core: str) -> Body:
    """`program` without loops and branches that do nothing and without bindings nobody reads.

    Only bindings that this core could not evaluate are dropped; reads of global memory stay, as the
    compiler keeps them. A program without any work left is empty.
    """
    while True:
        # A barrier orders the core's own pipes, unless it depends on what this core cannot read.
        smaller = _drop_unused(_drop_empty(program, tainted_statements(program, core)), core)
        if smaller is program:
            break
        program = smaller
    return program if any(_is_work(stmt) for stmt in ir.walk(program)) else ()


def foreign_reads(program: Body, core: str) -> tuple[Note, ...]:
    """Error notes for statements of `core` that depend on memory of the other core type."""
    tainted = _tainted_names(program, core)
    foreign = FOREIGN_SCOPES[core]
    notes = []
    for stmt in ir.walk(program):
        if isinstance(stmt, ir.TileOp):
            continue  # buffers of a tile operation are checked by the machine's own table
        direct = next((load for load in loads(stmt) if load.buffer.scope in foreign), None)
        if direct is None:
            continue
        notes.append(
            Note(
                code="AI-SRC-040",
                severity="error",
                message=(
                    f"{core} code reads an element of {direct.buffer.name!r} "
                    f"in {direct.buffer.scope.upper()}, "
                    f"which only the {other_core(core)} core can read"
                ),
                loc=stmt.loc,
            )
        )
    notes += [
        Note(
            code="AI-SRC-040",
            severity="error",
            message=f"control flow of {core} code depends on a value that only the "
            f"{other_core(core)} core can read",
            loc=stmt.loc,
        )
        for stmt in ir.walk(program)
        if isinstance(stmt, (ir.For, ir.While, ir.If))
        and any(v in tainted for v in variables(stmt))
    ]
    return tuple(notes)


def tainted_statements(program: Body, core: str) -> set[ir.Stmt]:
    """Statements of `program` whose values come from memory that `core` cannot read."""
    tainted = _tainted_names(program, core)
    foreign = FOREIGN_SCOPES[core]
    return {
        stmt
        for stmt in ir.walk(program)
        if any(load.buffer.scope in foreign for load in loads(stmt))
        or any(var in tainted for var in variables(stmt))
    }


def _tainted_names(program: Body, core: str) -> set[ir.Var]:
    foreign = FOREIGN_SCOPES[core]
    tainted: set[ir.Var] = set()
    registers: set[ir.Buffer] = set()
    grown = True
    while grown:
        grown = False
        for stmt in ir.walk(program):
            if not isinstance(stmt, (ir.Let, ir.Store)):
                continue
            dirty = any(v in tainted for v in variables(stmt)) or any(
                load.buffer.scope in foreign or load.buffer in registers for load in loads(stmt)
            )
            if not dirty:
                continue
            if isinstance(stmt, ir.Let) and stmt.var not in tainted:
                tainted.add(stmt.var)
                grown = True
            if isinstance(stmt, ir.Store) and stmt.buffer.scope == "var":
                if stmt.buffer not in registers:
                    registers.add(stmt.buffer)
                    grown = True
    return tainted


def _drop_empty(body: Body, without_barriers: Collection[ir.Stmt] = ()) -> Body:
    """`body` without loops and branches whose statements all lack effects.

    In blocks of `without_barriers`, barriers count as effects of nothing.
    """

    def visit(stmts: Body) -> Body:
        kept: list[ir.Stmt] = []
        for stmt in stmts:
            new = with_children(stmt, visit)
            inert = (ir.Let, ir.PipeBarrier) if stmt in without_barriers else (ir.Let,)
            if isinstance(new, ir.For):
                trips = static_int(new.stop - new.start)
                if trips is not None and trips < 1:
                    continue
            if isinstance(new, (ir.For, ir.While)):
                # nested blocks are gone if they were empty; what may remain is `if done: break`
                if all(isinstance(inner, (*inert, ir.If, ir.Break)) for inner in ir.walk(new.body)):
                    continue
            elif isinstance(new, (ir.If, ir.Parallel, ir.CoreScope)):
                if all(isinstance(inner, inert) for part in ir.children(new) for inner in part):
                    continue
            kept.append(new)
        return stmts if _same(kept, stmts) else tuple(kept)

    return visit(body)


def _drop_unused(body: Body, core: str) -> Body:
    foreign = FOREIGN_SCOPES[core]
    registers = {load.buffer for stmt in ir.walk(body) for load in loads(stmt)}
    body = _drop_bindings(body, lambda let: _reads_scope(let, foreign))

    def visit(stmts: Body) -> Body:
        kept = [with_children(stmt, visit) for stmt in stmts if not _is_dead_store(stmt, registers)]
        return stmts if _same(kept, stmts) else tuple(kept)

    return visit(body)


def _drop_bindings(body: Body, droppable: Callable[[ir.Let], bool]) -> Body:
    """`body` without the bindings that nothing reads and `droppable` allows."""
    read = {var for stmt in ir.walk(body) for var in variables(stmt)}

    def visit(stmts: Body) -> Body:
        kept = [
            with_children(stmt, visit)
            for stmt in stmts
            if not (isinstance(stmt, ir.Let) and stmt.var not in read and droppable(stmt))
        ]
        return stmts if _same(kept, stmts) else tuple(kept)

    return visit(body)


def _is_dead_store(stmt: ir.Stmt, registers: set[ir.Buffer]) -> bool:
    return (
        isinstance(stmt, ir.Store) and stmt.buffer.scope == "var" and stmt.buffer not in registers
    )


def without_no_ops(body: Body) -> Body:
    """`body` as the memory planner sees it: unread bindings and empty blocks are gone."""
    while True:
        smaller = _drop_bindings(_drop_empty(body), lambda let: True)
        if smaller is body:
            return body
        body = smaller


def _reads_scope(stmt: ir.Stmt, scopes: frozenset[str]) -> bool:
    return any(load.buffer.scope in scopes for load in loads(stmt))


def _is_work(stmt: ir.Stmt) -> bool:
    if isinstance(stmt, ir.TileOp):
        return stmt.op != "set_deq_scale"
    if isinstance(stmt, ir.Store):
        return stmt.buffer.scope != "var"
    return isinstance(stmt, _WORK)


def _same(kept: list[ir.Stmt], body: Body) -> bool:
    return len(kept) == len(body) and all(new is old for new, old in zip(kept, body))
