"""Which statements of a pipelined loop run ahead, and in which order they are emitted.

Statements that load from global memory go to stage 0, everything else to the last stage, which
runs `num_stages` iterations behind. A load is emitted right behind the last statement that uses
what it loaded. Flags and barriers touch no buffer, so they stay with the last stage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kernels_npu.errors import KernelSourceError, SourceLocation
from kernels_npu.sim import ir
from kernels_npu.sim.passes.parallel_lowering import lower_parallel
from kernels_npu.sim.passes.pipelining.accesses import Access, Accesses
from kernels_npu.sim.passes.rewriting import loads
from kernels_npu.sim.passes.substitution import Body

_TILES = ("ub", "l1")  # memories that a load from global memory can fill


@dataclass(kw_only=True, eq=False)
class Unit:
    """One statement of the loop with its place in the pipeline."""

    body: Body
    reads: list[Access]
    writes: list[Access]
    loads_memory: bool
    feeds_condition: bool = False
    last_use: int = -1
    stage: int = -1
    order: int = -1

    @property
    def prefetched(self) -> bool:
        """Whether it runs ahead of the others."""
        return (self.loads_memory and self.last_use != -1) or self.feeds_condition

    @property
    def loc(self) -> SourceLocation:
        return self.body[0].loc


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The units in their original order; `stage` and `order` of each are set."""

    units: list[Unit] = field(default_factory=list)

    @property
    def depth(self) -> int:
        """Iterations between the first and the last stage."""
        return max(unit.stage for unit in self.units)

    @property
    def emitted(self) -> list[Unit]:
        """The units as they are emitted."""
        return sorted(self.units, key=lambda unit: unit.order)


def plan(loop: ir.For, bodies: list[Body], num_stages: int, accesses: Accesses) -> Schedule:
    """The schedule of the compiler for `loop`.

    Raises:
        KernelSourceError: AI-PIPE-003 when a prefetched buffer is written twice, AI-PIPE-004 when
            a statement would run before one it depends on.
    """
    units = [_unit(body, accesses) for body in bodies]
    _mark_conditions(units)
    _mark_last_uses(units)
    _number(units, num_stages)
    _move_loads_to_front(units, num_stages)
    schedule = Schedule(units=units)
    check_dependences(loop, schedule)
    return schedule


def given(loop: ir.For, bodies: list[Body], accesses: Accesses) -> Schedule | None:
    """The schedule that `order=` and `stage=` of the loop spell out; None without them.

    Raises:
        KernelSourceError: AI-PIPE-006 for lists that do not fit the body, AI-PIPE-004.
    """
    orders, stages = (_list(loop.attrs.get(name)) for name in ("order", "stage"))
    if not orders or not stages:
        return None
    count = len(bodies)
    if len(orders) != count or len(stages) != count or len(set(orders)) != count:
        raise KernelSourceError(
            "AI-PIPE-006",
            f"T.Pipelined has order={orders} and stage={stages} for {count} statements",
            where=loop.loc,
            rule="both lists hold one entry per statement of the body, and orders differ",
            fix="leave order and stage out, or list every statement",
        )
    units = [_unit(body, accesses) for body in bodies]
    for unit, order, stage in zip(units, orders, stages):
        unit.order, unit.stage = order, stage
    schedule = Schedule(units=units)
    check_dependences(loop, schedule)
    return schedule


def _list(value: ir.Attr) -> list[int]:
    if not isinstance(value, tuple):
        return []
    return [int(v.value) if isinstance(v, ir.Const) else int(v) for v in value]  # type: ignore[call-overload]


# --------------------------------------------------------------------------- units


def _unit(body: Body, accesses: Accesses) -> Unit:
    touched = [access for stmt in body for access in accesses.of(stmt)]
    return Unit(
        body=body,
        reads=[access for access in touched if access.read],
        writes=[access for access in touched if access.write],
        loads_memory=_Loads(accesses).found(body),
    )


class _Loads:
    """Whether a statement reads global memory and, later on, writes a tile."""

    def __init__(self, accesses: Accesses) -> None:
        self.accesses = accesses
        self.global_read = False

    def found(self, body: Body) -> bool:
        """In any of `body`, in order."""
        return any(self._visit(stmt) for stmt in body)

    def _visit(self, stmt: ir.Stmt) -> bool:
        result = False
        if isinstance(stmt, ir.Store):
            self.global_read = False
        own = () if isinstance(stmt, ir.If) else self.accesses.own(stmt)  # conditions are skipped
        for access in own:
            scope = access.buffer.scope
            self.global_read |= access.read and scope == "global"
            result |= access.write and self.global_read and scope in _TILES
        if isinstance(stmt, ir.Store):
            self.global_read = False
        if isinstance(stmt, ir.Parallel) and lower_parallel(stmt) is not None:
            return result
        for part in ir.children(stmt):
            result |= self.found(part)
        return result


def _mark_conditions(units: list[Unit]) -> None:
    needed = {
        load.buffer
        for unit in units
        for stmt in ir.walk(unit.body)
        if isinstance(stmt, ir.If)
        for load in loads(stmt)
    }
    for unit in units:
        unit.feeds_condition = any(access.buffer in needed for access in unit.writes)


def _mark_last_uses(units: list[Unit]) -> None:
    for number, unit in enumerate(units):
        if not unit.loads_memory:
            continue
        filled = {access.buffer for access in unit.writes}
        for later in range(number + 1, len(units)):
            if any(access.buffer in filled for access in units[later].reads):
                unit.last_use = later
            again = next((a for a in units[later].writes if a.buffer in filled), None)
            if again is not None:
                raise KernelSourceError(
                    "AI-PIPE-003",
                    f"{again.buffer.name!r} is loaded at {unit.loc} and written again",
                    where=units[later].loc,
                    rule="a statement that loads a tile from global memory must be the only one in "
                    "a pipelined loop that writes the tile",
                    fix="use another buffer for the second result, or T.serial",
                )


# --------------------------------------------------------------------------- stages and orders


def _number(units: list[Unit], num_stages: int) -> None:
    order = 0
    for number, unit in enumerate(units):
        if unit.prefetched:
            continue
        unit.order, unit.stage = order, num_stages
        order += 1
        for load in units:
            if load.loads_memory and load.last_use == number:
                load.order, load.stage = order, 0
                order += 1
    first = -1  # the compiler's marker for "none yet" doubles as its counter
    for unit in units:
        if unit.order == first:
            unit.order = first
            first += 1
            for later in units[first:]:
                later.order += 1
            unit.stage = 0
            order += 1
    if sorted(unit.order for unit in units) != list(range(len(units))):
        clash = next(unit for unit in units if unit.feeds_condition)
        raise KernelSourceError(
            "AI-PIPE-007",
            "several statements of the loop compute what conditions in it read",
            where=clash.loc,
            rule="the compiler gives two of them the same place in a pipelined loop and stops",
            fix="use T.serial, or compute the conditions outside the loop",
        )


def _move_loads_to_front(units: list[Unit], num_stages: int) -> None:
    """With all loads behind everything else, they move to the front and run one iteration less."""
    ahead = [unit for unit in units if unit.loads_memory or unit.feeds_condition]
    rest = [unit for unit in units if unit not in ahead]
    if not ahead or num_stages < 2:
        return
    if min(unit.order for unit in ahead) <= max((unit.order for unit in rest), default=0):
        return
    for unit in units:
        unit.order = (unit.order + len(ahead)) % len(units)
    for unit in rest:
        unit.stage -= 1


# --------------------------------------------------------------------------- legality


def check_dependences(loop: ir.For, schedule: Schedule) -> None:
    """Refuse a schedule that runs a statement before another one whose result it reads.

    Raises:
        KernelSourceError: AI-PIPE-004.
    """
    for writer, reader, buffer in _flows(schedule.units):
        later = writer.stage > reader.stage
        reordered = writer.stage == reader.stage and writer.order >= reader.order
        if later or reordered:
            raise KernelSourceError(
                "AI-PIPE-004",
                f"this statement of the loop at {loop.loc} is prefetched, but it reads "
                f"{buffer.name!r}, which {writer.loc} computes in the same iteration",
                where=reader.loc,
                rule="what a pipelined loop loads from global memory cannot depend on results of "
                "the same iteration",
                fix="load the index outside the pipelined loop, or use T.serial",
            )


def _flows(units: list[Unit]) -> Iterator[tuple[Unit, Unit, ir.Buffer]]:
    """(writer, reader, buffer) with the writer first in the original order."""
    for position, reader in enumerate(units):
        for access in reader.reads:
            for writer in units[:position]:
                if any(write.buffer is access.buffer for write in writer.writes):
                    yield writer, reader, access.buffer


def condition_of(body: Body) -> ir.If | None:
    """The branch, when it is all that a loop body holds; its condition then guards each unit."""
    if len(body) == 1 and isinstance(body[0], ir.If):
        return body[0]
    return None
