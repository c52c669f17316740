"""Automatic cross-core flags (`tl.ascend_auto_cross_core_sync`), as CombineCV inserts them.

In each core's program the accesses to global tensors whose *name contains "workspace"* are listed
per name in program order, and the k-th access of the cube program is paired with the k-th of the
vector program. One must write and the other read. Each pair gets one flag: set after the write,
wait before the read. The pair is hoisted to the deepest loop level at which both sides run equally
often, because a flag counts.

No flag is set in the opposite direction: nothing tells a writer that its slot has been read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kernels_npu.errors import KernelSourceError
from kernels_npu.sim import ir
from kernels_npu.sim.passes.notes import Note
from kernels_npu.sim.passes.ownership import CUBE, VECTOR, copy_scopes
from kernels_npu.sim.passes.pipelining import CROSS_INTERVAL, STAGE_LOOP
from kernels_npu.sim.passes.rewriting import (
    constant_trips,
    loads,
    operand_buffer,
    static_int,
    with_children,
)

Body = tuple[ir.Stmt, ...]

#: (source, destination) scope of an access to global memory -> whether it writes, its pipe.
_ACCESS = {
    ("global", "l1"): (False, "MTE2"),
    ("global", "ub"): (False, "MTE2"),
    ("l0c", "global"): (True, "FIX"),
    ("ub", "global"): (True, "MTE3"),
}

MODE_BETWEEN_CORE_TYPES = 2


@dataclass(frozen=True, kw_only=True, eq=False)
class SyncPoint:
    """One access to a workspace; `loops` enclose it, outermost first."""

    stmt: ir.Stmt
    workspace: str
    writes: bool
    pipe: str
    loops: tuple[ir.For, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Anchor:
    """Where the flag of one side goes: after (write) or before (read) `stmt`."""

    stmt: ir.Stmt
    flag: ir.Stmt
    after: bool


def insert(cube: Body, vector: Body) -> tuple[Body, Body, tuple[Note, ...]]:
    """Both programs with the flags of every workspace pair; ids count up from 0 by workspace name.

    Raises:
        KernelSourceError: AI-SYNC-021 when the accesses of a workspace do not pair up, AI-SYNC-022
            when a trip count that is not constant decides where a flag goes.
    """
    points = {CUBE: _by_workspace(cube), VECTOR: _by_workspace(vector)}
    anchors: dict[str, list[_Anchor]] = {CUBE: [], VECTOR: []}
    notes: list[Note] = []
    flag_id = 0
    for workspace in sorted(points[CUBE]):
        cube_points = points[CUBE][workspace]
        vector_points = points[VECTOR].get(workspace, [])
        _check_counts(workspace, cube_points, vector_points)
        for pair in zip(cube_points, vector_points):
            _check_directions(workspace, *pair)
            depths = hoisting_depths(pair[0].loops, pair[1].loops)
            for core, point, depth in zip((CUBE, VECTOR), pair, depths):
                anchors[core].append(_anchor(point, depth, flag_id))
            flag_id += 1
    for number, point in enumerate(sync_points(vector)):
        if point.workspace not in points[CUBE]:
            # the compiler forgets to take these out: each keeps its number as a flag of its own
            anchors[VECTOR].append(_anchor(point, len(point.loops), number))
            notes.append(_one_sided(point, number))
    notes += _clashes(cube, vector, flag_id)
    return _attach(cube, anchors[CUBE]), _attach(vector, anchors[VECTOR]), tuple(notes)


# --------------------------------------------------------------------------- finding accesses


def sync_points(program: Body) -> list[SyncPoint]:
    """The workspace accesses of one core's program in program order."""
    found: list[SyncPoint] = []

    def visit(body: Body, loops: tuple[ir.For, ...]) -> None:
        for stmt in body:
            for name, writes, pipe in _accesses(stmt):
                found.append(
                    SyncPoint(stmt=stmt, workspace=name, writes=writes, pipe=pipe, loops=loops)
                )
            if isinstance(stmt, ir.Parallel):
                continue
            inner = (*loops, stmt) if isinstance(stmt, ir.For) else loops
            for nested in ir.children(stmt):
                visit(nested, inner)

    visit(program, ())
    return found


def _accesses(stmt: ir.Stmt) -> Iterator[tuple[str, bool, str]]:
    """(workspace name, writes, pipe) of the accesses that `stmt` itself makes."""
    if isinstance(stmt, ir.TileOp):
        scopes = None
        if stmt.op == "copy":
            scopes = copy_scopes(stmt)
        elif stmt.op == "atomic_add":
            source = operand_buffer(stmt.operands[1])
            scopes = (source.scope, "global") if source is not None else None
        access = _ACCESS.get(scopes) if scopes is not None else None
        if access is None:
            return
        for operand in stmt.operands:
            buffer = operand_buffer(operand)
            if buffer is not None and "workspace" in buffer.name:
                yield (buffer.name, *access)
                return
    elif isinstance(stmt, ir.Parallel):
        yield from _parallel_accesses(stmt)


def _parallel_accesses(loop: ir.Parallel) -> Iterator[tuple[str, bool, str]]:
    """A `T.Parallel` that moves data to or from a workspace has become a copy by then."""
    for stmt in loop.body:
        if not isinstance(stmt, ir.Store):
            continue
        sources = [load.buffer for load in loads(stmt)]
        if stmt.buffer.scope == "global":
            if "workspace" in stmt.buffer.name:
                from_l0c = any(buffer.scope == "l0c" for buffer in sources)
                yield (stmt.buffer.name, True, "FIX" if from_l0c else "MTE3")
            continue
        for buffer in sources:
            if buffer.scope == "global" and "workspace" in buffer.name:
                yield (buffer.name, False, "MTE2")


def _by_workspace(program: Body) -> dict[str, list[SyncPoint]]:
    grouped: dict[str, list[SyncPoint]] = {}
    for point in sync_points(program):
        grouped.setdefault(point.workspace, []).append(point)
    return grouped


# --------------------------------------------------------------------------- hoisting


class _Side:
    """A walk down one loop nest, multiplying trip counts."""

    def __init__(self, loops: tuple[ir.For, ...], uncounted: set[str]) -> None:
        self.loops = loops
        self.uncounted = uncounted
        self.index = 0
        self.times = 1

    def trip_count(self) -> int:
        """Iterations of the next loop inward."""
        loop = self.loops[self.index]
        if loop.var.name in self.uncounted:
            return 1
        count = constant_trips(loop)
        if count is None:
            raise KernelSourceError(
                "AI-SYNC-022",
                f"the loop over {loop.var.name!r} has a trip count known only at run time, and the "
                "other core type has no loop of that name at the same depth",
                where=loop.loc,
                rule="automatic cross-core flags compare trip counts, which must be constant",
                fix="use the same loop variable on both sides, or set the flags by hand",
            )
        return count

    def may_descend(self, limit: int) -> bool:
        return self.index < len(self.loops) and (self.times <= limit or self.trip_count() == 1)

    def descend(self) -> None:
        self.times *= self.trip_count()
        self.index += 1


def hoisting_depths(cube: tuple[ir.For, ...], vector: tuple[ir.For, ...]) -> tuple[int, int]:
    """How many loops of each nest stay outside the flag, so that both sides count equally.

    The flag goes around the loop at that index, or directly to the access when there is none. Loops
    whose trip count is not constant count as one iteration when both nests have a loop of the same
    name at the same depth.
    """
    shared = {
        a.var.name
        for a, b in zip(cube, vector)
        if a.var.name == b.var.name and constant_trips(a) is None
    }
    a, b = _Side(cube, shared), _Side(vector, shared)
    depths = (0, 0)
    matched_times = 1
    while a.index < len(cube) or b.index < len(vector):
        before = (a.index, b.index)
        while a.may_descend(b.times):
            if a.times == b.times:
                depths, matched_times = (a.index, b.index), a.times
            a.descend()
        while b.may_descend(a.times):
            if a.times == b.times:
                depths, matched_times = (a.index, b.index), a.times
            b.descend()
            if b.times == matched_times:
                depths = (depths[0], b.index)  # a loop of one iteration still matches
        if before == (a.index, b.index):
            break
    if a.times == b.times:
        depths = (a.index, b.index)
    return depths


# --------------------------------------------------------------------------- inserting


def _anchor(point: SyncPoint, depth: int, flag_id: int) -> _Anchor:
    loc = point.stmt.loc
    number = ir.Const(flag_id, "int32")
    flag: ir.Stmt
    if point.writes:
        flag = ir.SetCrossFlag(
            loc=loc,
            pipe=point.pipe,
            flag_id=number,
            mode=MODE_BETWEEN_CORE_TYPES,
            in_flight=_in_flight(point, depth),
        )
    else:
        flag = ir.WaitCrossFlag(loc=loc, flag_id=number, pipe=point.pipe)
    target = point.loops[depth] if depth < len(point.loops) else point.stmt
    return _Anchor(stmt=target, flag=_thinned(flag, point, depth), after=point.writes)


def _in_flight(point: SyncPoint, depth: int) -> int:
    """Sets of a flag in one group of a cross-core pipeline, all before the first wait."""
    counts = [
        static_int(loop.stop) or 1
        for position, loop in enumerate(point.loops)
        if STAGE_LOOP in loop.attrs and position < depth
    ]
    return counts[0] if counts else 1


def _thinned(flag: ir.Stmt, point: SyncPoint, depth: int) -> ir.Stmt:
    """`flag` only every `cross_interval` iterations of a cross-core pipeline's group."""
    position, stage = next(
        ((i, loop) for i, loop in enumerate(point.loops) if STAGE_LOOP in loop.attrs), (0, None)
    )
    interval = 1 if stage is None else stage.attrs.get(CROSS_INTERVAL, 1)
    if stage is None or not isinstance(interval, int) or interval <= 1:
        return flag
    if depth <= position:
        raise KernelSourceError(
            "AI-PIPE-008",
            f"cross_interval={interval}: the flag for {point.workspace!r} moves out of the "
            "pipelined loop, whose variable decides when it is set",
            where=point.stmt.loc,
            rule="the generated code uses the loop variable outside its loop",
            fix="use cross_interval=1, or let both core types loop equally often",
        )
    phase = stage.var % interval
    due = ir.binary("eq", phase, interval - 1 if point.writes else 0)
    if point.writes:
        due = ir.binary("or", due, ir.binary("eq", stage.var, stage.stop - 1))
    return ir.If(loc=flag.loc, cond=due, then=(flag,))


def _attach(program: Body, anchors: list[_Anchor]) -> Body:
    by_stmt: dict[int, list[_Anchor]] = {}
    for anchor in anchors:
        by_stmt.setdefault(id(anchor.stmt), []).append(anchor)

    def visit(body: Body) -> Body:
        out: list[ir.Stmt] = []
        for stmt in body:
            group: list[ir.Stmt] = [with_children(stmt, visit)]
            for anchor in by_stmt.get(id(stmt), ()):  # later pairs go further outside
                group = [*group, anchor.flag] if anchor.after else [anchor.flag, *group]
            out += group
        return tuple(out)

    return visit(program)


# --------------------------------------------------------------------------- checks


def _check_counts(workspace: str, cube: list[SyncPoint], vector: list[SyncPoint]) -> None:
    if len(cube) == len(vector):
        return
    raise KernelSourceError(
        "AI-SYNC-021",
        f"workspace {workspace!r} is accessed {len(cube)} times by the cube program and "
        f"{len(vector)} times by the vector program",
        where=max(cube, vector, key=len)[-1].stmt.loc,
        rule="automatic cross-core flags pair the k-th access of both sides",
        fix="access the workspace equally often on both sides, or set the flags by hand",
    )


def _check_directions(workspace: str, cube: SyncPoint, vector: SyncPoint) -> None:
    if cube.writes != vector.writes:
        return
    verb = "write" if cube.writes else "read"
    raise KernelSourceError(
        "AI-SYNC-021",
        f"both core types {verb} workspace {workspace!r} at paired accesses "
        f"({cube.stmt.loc} and {vector.stmt.loc})",
        where=cube.stmt.loc,
        rule="of two paired accesses one must write and the other read",
        fix="use one workspace per direction",
    )


def _one_sided(point: SyncPoint, flag_id: int) -> Note:
    act = "sets flag {} after it, for which the cube program never waits"
    if not point.writes:
        act = "waits for flag {} before it, which the cube program never sets"
    return Note(
        code="AI-SYNC-023",
        severity="warning",
        message=f"workspace {point.workspace!r} is accessed by the vector program only; the "
        f"compiler {act.format(flag_id)}",
        loc=point.stmt.loc,
    )


def _clashes(cube: Body, vector: Body, automatic: int) -> Iterator[Note]:
    """Flags set by hand beside automatic ones: the compiler does not look at them."""
    if not automatic:
        return
    for stmt in (*ir.walk(cube), *ir.walk(vector)):
        if not isinstance(stmt, (ir.SetCrossFlag, ir.WaitCrossFlag)):
            continue
        flag_id = static_int(stmt.flag_id)
        clash = flag_id is not None and flag_id < automatic
        yield Note(
            code="AI-SYNC-024" if clash else "AI-SYNC-026",
            severity="warning",
            message=f"flag {flag_id} is also used by the automatic cross-core flags "
            f"0..{automatic - 1}"
            if clash
            else f"a cross-core flag set by hand beside the automatic flags 0..{automatic - 1}: "
            "the compiler pairs workspace accesses as if it were not there",
            loc=stmt.loc,
        )
