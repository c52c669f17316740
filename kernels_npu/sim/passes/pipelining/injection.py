"""Software pipelines within one core: prologue, steady loop and epilogue, with buffer versions."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping

from kernels_npu.errors import KernelSourceError
from kernels_npu.sim import ir
from kernels_npu.sim.passes.notes import Note
from kernels_npu.sim.passes.pipelining import planning
from kernels_npu.sim.passes.pipelining.accesses import Accesses
from kernels_npu.sim.passes.pipelining.items import statements
from kernels_npu.sim.passes.pipelining.planning import Schedule, Unit
from kernels_npu.sim.passes.pipelining.versions import Versions
from kernels_npu.sim.passes.rewriting import constant_trips, static_int, with_children
from kernels_npu.sim.passes.substitution import Body, Substitution

Homes = Mapping[ir.Buffer, tuple[ir.Var, ...]]


def num_stages(loop: ir.Stmt) -> int:
    """Stages of a software-pipelined loop; 0 for every other statement."""
    stages = loop.attrs.get("num_stages") if isinstance(loop, ir.For) else None
    return stages if isinstance(stages, int) else 0


class Injector:
    """Pipelines the loops of one program.

    homes: the loops around all uses of each allocation; the innermost is where it is allocated.
    """

    def __init__(self, homes: Homes, accesses: Accesses, versions: Versions) -> None:
        self.homes = homes
        self.accesses = accesses
        self.versions = versions
        self.notes: list[Note] = []

    def visit(self, body: Body) -> Body:
        """`body` with every pipelined loop emitted the way the compiler emits it.

        Raises:
            KernelSourceError: AI-PIPE-001, 003 .. 007: loops the compiler rejects.
        """
        emitted: list[ir.Stmt] = []
        changed = False
        for stmt in body:
            if num_stages(stmt) or (isinstance(stmt, ir.For) and stmt.attrs.get("order")):
                assert isinstance(stmt, ir.For)
                emitted += self._pipeline(stmt)
                changed = True
                continue
            new = with_children(stmt, self.visit)
            changed |= new is not stmt
            emitted.append(new)
        return tuple(emitted) if changed else body

    # ------------------------------------------------------------------ one loop

    def _pipeline(self, loop: ir.For) -> Body:
        local = [b for b, path in self.homes.items() if path and path[-1] is loop.var]
        whole = statements(loop.body, self.versions.origin)
        guard = planning.condition_of(whole[0]) if len(whole) == 1 and local else None
        bodies = whole
        if guard is not None:
            if guard.orelse:
                raise _not_a_sequence(loop, "its body is a branch with an else part")
            bodies = statements(guard.then, self.versions.origin)
        if len(bodies) < 2:
            raise _not_a_sequence(loop, "its body is a single statement")
        schedule = planning.given(loop, bodies, self.accesses)
        if schedule is None:
            if not num_stages(loop):
                return (loop,)
            schedule = planning.plan(loop, bodies, num_stages(loop), self.accesses)
        self._check_local(loop, local, schedule)
        versioned = self._versioned(local, schedule)
        self._check_prefetches(loop, schedule, versioned)
        return tuple(_Emitter(loop, guard, schedule, versioned, self.versions).emit())

    def _check_local(self, loop: ir.For, local: list[ir.Buffer], schedule: Schedule) -> None:
        used = {a.buffer for unit in schedule.units for a in (*unit.reads, *unit.writes)}
        absent = next((buffer for buffer in local if buffer not in used), None)
        if absent is not None:
            raise KernelSourceError(
                "AI-PIPE-005",
                f"the pipelined loop holds work of both core types without a store to global "
                f"memory; after the split one of its halves has no use for {absent.name!r}",
                where=loop.loc,
                rule="the compiler stops when half of a pipelined loop does not use a buffer that "
                "is allocated in the loop",
                fix="put cube and vector work into loops of their own, or use T.serial",
            )

    def _versioned(self, local: list[ir.Buffer], schedule: Schedule) -> frozenset[ir.Buffer]:
        found = []
        for buffer in local:
            count = _version_count(buffer, schedule)
            if count > 1:
                self.versions.add(buffer, count)
                found.append(buffer)
        return frozenset(found)

    def _check_prefetches(
        self, loop: ir.For, schedule: Schedule, versioned: Collection[ir.Buffer]
    ) -> None:
        trips = constant_trips(loop)
        if trips is not None and trips < 2:
            return
        for unit in schedule.units:
            for buffer in dict.fromkeys(access.buffer for access in unit.writes):
                if buffer in versioned or buffer.scope == "global":
                    continue
                ahead = _in_flight(buffer, unit, schedule)
                if ahead < 2:
                    continue
                self.notes.append(
                    Note(
                        code="AI-PIPE-011",
                        severity="error",
                        message=f"the pipelined loop loads {buffer.name!r} for {ahead} iterations "
                        "at a time, but the buffer is also used outside the loop, so the compiler "
                        "keeps one version of it: each load overwrites data that is not used yet; "
                        "give the loop a buffer of its own, or use T.serial",
                        loc=unit.loc,
                    )
                )


def _not_a_sequence(loop: ir.For, why: str) -> KernelSourceError:
    return KernelSourceError(
        "AI-PIPE-001",
        f"the loop has nothing to pipeline: {why}",
        where=loop.loc,
        rule="the body of T.Pipelined(num_stages=...) is a sequence of at least two statements; "
        "a binding that reads memory and all that follows it count as one",
        fix="use T.serial",
    )


def _in_flight(buffer: ir.Buffer, writer: Unit, schedule: Schedule) -> int:
    """Iterations whose contents of `buffer` are needed at the same time."""
    return max(
        (
            reader.stage - writer.stage + (writer.order < reader.order)
            for reader in schedule.units
            if reader.stage > writer.stage and any(a.buffer is buffer for a in reader.reads)
        ),
        default=0,
    )


def _version_count(buffer: ir.Buffer, schedule: Schedule) -> int:
    writers = [u for u in schedule.units if any(a.buffer is buffer for a in u.writes)]
    readers = [u for u in schedule.units if any(a.buffer is buffer for a in u.reads)]
    if not writers:
        return 1
    first = min(unit.stage for unit in writers)
    count = max((unit.stage for unit in readers), default=-1) - first + 1
    needed = any(w.order < r.order and w.stage < r.stage for w in writers for r in readers)
    return count - 1 if count >= 2 and not needed else count


# --------------------------------------------------------------------------- emission


class _Emitter:
    """Writes out one pipelined loop: a unit of stage s runs iteration `step - s` at each step."""

    def __init__(
        self,
        loop: ir.For,
        guard: ir.If | None,
        schedule: Schedule,
        versioned: frozenset[ir.Buffer],
        versions: Versions,
    ) -> None:
        self.loop = loop
        self.guard = guard
        self.schedule = schedule
        self.versioned = versioned
        self.versions = versions
        self.first = static_int(loop.start)
        self.trips = constant_trips(loop)

    def emit(self) -> Iterator[ir.Stmt]:
        """Prologue, steady part, epilogue."""
        loop, depth = self.loop, self.schedule.depth
        yield from self._steps(loop.start, depth)
        if self.trips is None or self.trips > depth:
            yield from self._loop(loop.start + depth, loop.stop, bounded=False)
        yield from self._steps(loop.stop, depth)

    def _steps(self, start: ir.Expr, count: int) -> Iterator[ir.Stmt]:
        """`count` steps from `start` on; written out when the loop's bounds are constants."""
        first = static_int(start)
        if first is None or self.trips is None:
            yield from self._loop(start, start + count, bounded=True)
            return
        for step in range(first, first + count):
            for unit in self.schedule.emitted:
                iteration = step - unit.stage
                assert self.first is not None
                if self.first <= iteration < self.first + self.trips:
                    yield from self._unit(unit, ir.Const(iteration, self.loop.var.dtype))

    def _loop(self, start: ir.Expr, stop: ir.Expr, *, bounded: bool) -> Iterator[ir.Stmt]:
        step = ir.Var(self.loop.var.name, self.loop.var.dtype)
        body: list[ir.Stmt] = []
        for unit in self.schedule.emitted:
            iteration = step - unit.stage if unit.stage else step
            part = tuple(self._unit(unit, iteration, step))
            if bounded:
                inside = ir.binary("and", self.loop.start <= iteration, iteration < self.loop.stop)
                part = (ir.If(loc=unit.loc, cond=inside, then=part),)
            body += part
        if self.versioned:
            self.versions.select_by(step, iter(self.versioned))
        trips = constant_trips(dataclasses.replace(self.loop, start=start, stop=stop))
        if trips == 0:
            return
        yield dataclasses.replace(
            self.loop, var=step, start=start, stop=stop, body=tuple(body), kind="serial", attrs={}
        )

    def _unit(
        self, unit: Unit, iteration: ir.Expr, step: ir.Var | None = None
    ) -> Iterator[ir.Stmt]:
        fixed = static_int(iteration)
        if fixed is not None:
            views = self.versions.at(unit.body, fixed, self.versioned)
        else:
            views = self.versions.of_iteration(unit.body, -unit.stage, self.versioned)
        copies = Substitution(
            variables={self.loop.var: iteration}, buffers=views, origin=self.versions.origin
        )
        body = copies.body(unit.body)
        if self.guard is not None:
            bare = dataclasses.replace(self.guard, then=())
            first = self.versions.at((bare,), 0, self.versioned)  # conditions get no version index
            cond = Substitution(variables=copies.variables, buffers=first).expr(self.guard.cond)
            body = (dataclasses.replace(self.guard, cond=cond, then=body),)
        yield from body
