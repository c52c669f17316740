"""The programs of the two core types: what the cube core and each vector core execute.

Without `tl.ascend_auto_cv_combine` the generated code guards every operation with its core type,
so each core keeps the operations it owns and the control flow, and `T.Scope` hides a region from
the other type.

With it the compiler emits the body twice and keeps statements by rules that are coarser:
  1. copies, matrix operations and atomic adds by name; other tile operations by the scope of their
     first on-chip operand;
  2. everything without on-chip operand (flags, barriers, cross-core flags) follows the decision
     that the *previous* statement took, which is "dropped" at the start;
  3. element stores to UB go to the vector program only, all others (global memory, `alloc_var`) to
     the *cube program only*;
  4. loops left empty disappear; `if` and bindings stay in both.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kernels_npu.errors import KernelSourceError
from kernels_npu.sim import ir
from kernels_npu.sim.passes.notes import Note
from kernels_npu.sim.passes.ownership import (
    BOTH,
    CORES,
    CUBE,
    VECTOR,
    other_core,
    parallel_store_owner,
    store_owner,
    tile_op_owner,
)
from kernels_npu.sim.passes.parallel_lowering import lower_parallel
from kernels_npu.sim.passes.pruning import foreign_reads, prune, tainted_statements
from kernels_npu.sim.passes.rewriting import loads, with_children

Body = tuple[ir.Stmt, ...]


@dataclass(frozen=True, kw_only=True)
class CorePrograms:
    """What each core type runs, and what is worth saying about the split."""

    cube: Body
    vector: Body
    notes: tuple[Note, ...] = ()


def split(func: ir.PrimFunc, *, combine: bool) -> CorePrograms:
    """Split the body of `func`; `finish` removes what is left of `T.Scope` and of foreign regions.

    `combine` is the value of `tl.ascend_auto_cv_combine`. Scopes must have been inferred.

    Raises:
        KernelSourceError: AI-SRC-043 for `T.sync_all()` with `combine`, which crashes the compiler.
    """
    if combine:
        cube, vector = (_Combiner(core).visit(func.body) for core in CORES)
        return CorePrograms(cube=cube, vector=vector, notes=_combine_notes(func.body, cube, vector))
    cube, vector = (_owned(func.body, core) for core in CORES)
    return CorePrograms(cube=cube, vector=vector, notes=_misplaced(func.body))


def finish(programs: CorePrograms) -> CorePrograms:
    """Resolve `T.Scope`, then remove what has no effect on each core.

    Error notes name statements that depend on memory of the other core type.
    """
    notes = list(programs.notes)
    finished: dict[str, Body] = {}
    for core, body in ((CUBE, programs.cube), (VECTOR, programs.vector)):
        body = prune(_resolve_scopes(body, core), core)
        notes += foreign_reads(body, core)
        finished[core] = body
    return CorePrograms(cube=finished[CUBE], vector=finished[VECTOR], notes=tuple(notes))


# --------------------------------------------------------------------------- without combine


def _owned(body: Body, core: str) -> Body:
    tainted = tainted_statements(body, core)

    def keep(stmt: ir.Stmt) -> bool:
        if isinstance(stmt, ir.TileOp):
            return tile_op_owner(stmt) in (core, BOTH)
        if isinstance(stmt, ir.Store):
            owner = store_owner(stmt)
            # a register holds its own copy per core;
            # elsewhere the core that can read the value writes
            foreign = stmt in tainted and stmt.buffer.scope != "var"
            return owner == core or (owner == BOTH and not foreign)
        return not (isinstance(stmt, ir.CoreScope) and stmt.core != core)

    def visit(stmts: Body) -> Body:
        kept: list[ir.Stmt] = []
        for stmt in stmts:
            if isinstance(stmt, ir.Parallel):
                kept += _parallel_part(stmt, lambda store: parallel_store_owner(store) == core)
            elif keep(stmt):
                kept.append(with_children(stmt, visit))
        return tuple(kept)

    return visit(body)


def _parallel_part(loop: ir.Parallel, keep: Callable[[ir.Store], bool]) -> Body:
    """The stores of a `T.Parallel` that `keep` selects, as a loop of their own."""

    def visit(stmts: Body) -> Body:
        kept: list[ir.Stmt] = []
        for stmt in stmts:
            if isinstance(stmt, ir.Store) and not keep(stmt):
                continue
            new = with_children(stmt, visit)
            if isinstance(new, (ir.If, ir.For)) and not any(ir.children(new)):
                continue
            kept.append(new)
        return stmts if len(kept) == len(stmts) else tuple(kept)

    body = visit(loop.body)
    if not any(isinstance(stmt, ir.Store) for stmt in ir.walk(body)):
        return ()
    return (loop,) if body is loop.body else (dataclasses.replace(loop, body=body),)


def _misplaced(body: Body) -> tuple[Note, ...]:
    """Operations inside a `T.Scope` of the core type that does not own them: they never run.

    One note per scope: the scope is wrong or all of them are misplaced.
    """
    notes: list[Note] = []
    for scope in (s for s in ir.walk(body) if isinstance(s, ir.CoreScope)):
        lost = [
            op for op in _directly_in(scope.body) if tile_op_owner(op) == other_core(scope.core)
        ]
        if not lost:
            continue
        first, more = lost[0], len(lost) - 1
        what = f"T.{first.op} is a {other_core(scope.core)} operation"
        if more:
            what += f", as {more} more here {'are' if more > 1 else 'is'}, and stands"
        notes.append(
            Note(
                code="AI-SRC-042",
                severity="warning",
                message=f'{what} inside T.Scope("{"C" if scope.core == CUBE else "V"}"); no core '
                f"executes {'them' if more else 'it'}",
                loc=first.loc,
            )
        )
    return tuple(notes)


def _directly_in(body: Body) -> Iterator[ir.TileOp]:
    """Tile operations of `body` that no further `T.Scope` encloses."""
    for stmt in body:
        if isinstance(stmt, ir.TileOp):
            yield stmt
        elif not isinstance(stmt, ir.CoreScope):
            for nested in ir.children(stmt):
                yield from _directly_in(nested)


# --------------------------------------------------------------------------- combine


class _Combiner:
    """Emits one core's copy; `keeping` is the sticky decision of the last decided statement."""

    def __init__(self, core: str) -> None:
        self.core = core
        self.keeping = False

    def visit(self, body: Body) -> Body:
        kept: list[ir.Stmt] = []
        for stmt in body:
            if isinstance(stmt, ir.SyncAll):
                raise KernelSourceError(
                    "AI-SRC-043",
                    "T.sync_all() in a kernel with tl.ascend_auto_cv_combine",
                    where=stmt.loc,
                    rule="the CombineCV pass of the adapter compiler crashes on T.sync_all()",
                    fix="split the kernel with T.Scope and switch tl.ascend_auto_cv_combine off",
                )
            if isinstance(stmt, ir.Parallel):
                kept += self._parallel(stmt)
            elif self._keeps(stmt):
                new = with_children(stmt, self.visit)
                if not (isinstance(new, ir.For) and _is_empty(new.body)):
                    kept.append(new)
        return tuple(kept)

    def _parallel(self, loop: ir.Parallel) -> Body:
        """Vector instructions and copies where they exist, otherwise a loop of element stores."""
        if lower_parallel(loop) is None:
            return _parallel_part(loop, self._keeps)
        part = _parallel_part(loop, lambda store: parallel_store_owner(store) == self.core)
        self.keeping = bool(part)
        return part

    def _keeps(self, stmt: ir.Stmt) -> bool:
        if isinstance(stmt, ir.Store):
            if _is_initialiser(stmt):
                return True
            return (stmt.buffer.scope == "ub") == (self.core == VECTOR)
        if isinstance(stmt, ir.TileOp):
            owner = tile_op_owner(stmt)
            if stmt.op == "printf":
                return True
            if owner != BOTH:
                self.keeping = owner == self.core
            return self.keeping
        if isinstance(
            stmt,
            (ir.SetFlag, ir.WaitFlag, ir.PipeBarrier, ir.SetCrossFlag, ir.WaitCrossFlag),
        ):
            return self.keeping
        return True


def _is_initialiser(store: ir.Store) -> bool:
    """A constant `init=` of `alloc_var`: part of the declaration, so both copies have it."""
    return (
        store.buffer.scope == "var"
        and isinstance(store.value, ir.Const)
        and store.loc == store.buffer.loc
    )


def _is_empty(body: Body) -> bool:
    """The compiler's notion: nothing, or branches of nothing; a binding keeps a loop alive."""
    return all(
        isinstance(stmt, ir.If) and _is_empty(stmt.then) and _is_empty(stmt.orelse) for stmt in body
    )


def _combine_notes(body: Body, cube: Body, vector: Body) -> tuple[Note, ...]:
    kept = {id(stmt) for program in (cube, vector) for stmt in ir.walk(program)}
    read_by_vector = {load.buffer for stmt in ir.walk(vector) for load in loads(stmt)}
    notes: list[Note] = []
    for stmt in ir.walk(body):
        if isinstance(stmt, ir.Store) and stmt.buffer.scope == "var":
            if not _is_initialiser(stmt) and stmt.buffer in read_by_vector:
                notes.append(
                    Note(
                        code="AI-SRC-041",
                        severity="warning",
                        message=f"with tl.ascend_auto_cv_combine the assignment to "
                        f"{stmt.buffer.name!r} stays in the cube program only, but the vector "
                        "program reads it and sees the initial value",
                        loc=stmt.loc,
                    )
                )
        elif isinstance(stmt, _DROPPABLE) and id(stmt) not in kept:
            notes.append(
                Note(
                    code="AI-SYNC-020",
                    severity="hint" if isinstance(stmt, ir.PipeBarrier) else "warning",
                    message="tl.ascend_auto_cv_combine drops this statement from both programs: "
                    "it follows the decision for the statement before it, and there is none",
                    loc=stmt.loc,
                )
            )
    return tuple(notes)


_DROPPABLE = (ir.SetFlag, ir.WaitFlag, ir.PipeBarrier, ir.SetCrossFlag, ir.WaitCrossFlag)


def _resolve_scopes(body: Body, core: str) -> Body:
    """Inline the regions of `core`, drop those of the other type."""
    kept: list[ir.Stmt] = []
    for stmt in body:
        if isinstance(stmt, ir.CoreScope):
            if stmt.core == core:
                kept += _resolve_scopes(stmt.body, core)
        else:
            kept.append(with_children(stmt, lambda nested: _resolve_scopes(nested, core)))
    return tuple(kept)
