"""What can be deleted: the places where a kernel's text synchronises, and kernels without some."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from kernels_npu.sim import ir


@dataclass(frozen=True, order=True)
class Place:
    """A synchronisation statement as it stands in the text, wherever it is expanded to."""

    file: str
    line: int
    statement: str

    def __str__(self) -> str:
        return f"{self.statement} at line {self.line}"


def place_of(stmt: ir.Stmt) -> Place | None:
    """The place of a synchronisation statement; None for any other statement."""
    name = _name(stmt)
    return None if name is None else Place(stmt.loc.file, stmt.loc.line, name)


def _name(stmt: ir.Stmt) -> str | None:
    if isinstance(stmt, (ir.SetFlag, ir.WaitFlag)):
        kind = "set" if isinstance(stmt, ir.SetFlag) else "wait"
        return f"{kind}_flag({stmt.src}, {stmt.dst})"
    if isinstance(stmt, ir.PipeBarrier):
        return "barrier_all" if stmt.pipe == "ALL" else f"pipe_barrier({stmt.pipe})"
    if isinstance(stmt, ir.SetCrossFlag):
        return f"set_cross_flag({stmt.pipe})"
    if isinstance(stmt, ir.WaitCrossFlag):
        return "wait_cross_flag"
    return "sync_all" if isinstance(stmt, ir.SyncAll) else None


def places(func: ir.PrimFunc) -> set[Place]:
    """All synchronisation of a kernel."""
    found = (place_of(stmt) for stmt in ir.walk(func.body))
    return {place for place in found if place is not None}


def without(func: ir.PrimFunc, deleted: Collection[Place]) -> ir.PrimFunc:
    """`func` as if its text lacked the places `deleted`."""
    return dataclasses.replace(func, body=_prune(func.body, deleted))


def _prune(body: tuple[ir.Stmt, ...], deleted: Collection[Place]) -> tuple[ir.Stmt, ...]:
    kept = []
    for stmt in body:
        if place_of(stmt) in deleted:
            continue
        names = ("then", "orelse") if isinstance(stmt, ir.If) else ("body",)
        inner: dict[str, Any] = {
            name: _prune(nested, deleted) for name, nested in zip(names, ir.children(stmt))
        }
        kept.append(dataclasses.replace(stmt, **inner) if inner else stmt)
    return tuple(kept)


@dataclass(frozen=True, order=True)
class Deletion:
    """Places that are deleted together.

    kind: `pair` (a set and a wait that met), `channel` (all sets and waits that met each other,
    directly or not: deleting them leaves the rest balanced), `half` or `barrier`.
    """

    kind: str
    places: tuple[Place, ...]

    def __str__(self) -> str:
        return " and ".join(map(str, self.places))


def deletions(found: Iterable[Place], pairs: Collection[tuple[Place, Place]]) -> list[Deletion]:
    """Everything to delete, given the places of a file and which set met which wait."""
    halves = [p for p in found if p.statement.startswith(("set_", "wait_"))]
    barriers = [p for p in found if p not in halves]
    joined = [Deletion("pair", pair) for pair in pairs]
    joined += [Deletion("channel", c) for c in _components(pairs) if len(c) > 2]
    single = [Deletion("half", (p,)) for p in halves]
    single += [Deletion("barrier", (p,)) for p in barriers]
    return sorted(joined) + sorted(single)


def _components(pairs: Collection[tuple[Place, Place]]) -> list[tuple[Place, ...]]:
    """The connected parts of the graph whose edges are `pairs`."""
    groups: dict[Place, set[Place]] = {}
    for a, b in pairs:
        merged = groups.get(a, {a}) | groups.get(b, {b})
        for place in merged:
            groups[place] = merged
    return [tuple(sorted(group)) for group in {id(g): g for g in groups.values()}.values()]
