"""Why a deletion changes nothing: an argument from the happens-before graphs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from kernels_npu.sim import ir
from kernels_npu.sim.machine.happens_before import Comparison, Execution, Numbers, compare
from kernels_npu.sim.machine.shadow import AGENTS_PER_CORE, PIPE_INDEX, PIPES
from kernels_npu.sim.mutation.deletions import Place, place_of

#: Events of the deleted places that are looked at for an example.
_EXAMPLES = 50

_ORDERED_BY_COMPILER = {PIPE_INDEX["S"], PIPE_INDEX["V"]}


@dataclass(frozen=True)
class Reason:
    """Whether no order is lost, and the argument or what is lost."""

    redundant: bool
    text: str


def needs_no_edge(earlier: int, later: int) -> bool:
    """Whether two accesses are in order by what they are executed on.

    A pipe completes in order; the device compiler orders the vector and the scalar unit of a core.
    """
    return earlier == later or _compiler_orders(earlier, later)


def _compiler_orders(earlier: int, later: int) -> bool:
    (core, pipe), (other, second) = divmod(earlier, AGENTS_PER_CORE), divmod(later, AGENTS_PER_CORE)
    return core == other and {pipe, second} <= _ORDERED_BY_COMPILER


def why_redundant(
    base: Sequence[Execution],
    changed: Sequence[Execution],
    deleted: Collection[Place],
    *,
    auto_sync: bool = False,
) -> Reason:
    """Compare the kernel's executions, block by block, with those after the deletion.

    auto_sync: the compiler orders the pipes of a core, which is then one chain.
    """
    if len(base) != len(changed):
        return Reason(False, "the executions differ")
    arguments = []
    for first, second in zip(base, changed):
        comparison = compare(first, second, needs_no_edge)
        if not comparison.same:
            return Reason(False, "the executions differ")
        if len(comparison.lost):
            return Reason(False, f"lost: {_describe(first, comparison.lost[0])}")
        arguments.append(_argument(first, second, comparison, deleted))
    if auto_sync and not any("cross" in place.statement for place in deleted):
        return Reason(True, "automatic synchronisation: the compiler orders the pipes of a core")
    # The strongest argument is the one that had an order to keep.
    return Reason(True, max(arguments, key=lambda a: a[0])[1] if arguments else "no accesses")


def _argument(
    first: Execution, second: Execution, comparison: Comparison, deleted: Collection[Place]
) -> tuple[int, str]:
    """(strength, text) of the argument for one execution."""
    on_pipe = compare(first, second, _compiler_orders)
    if len(on_pipe.lost):
        return 3, f"in order on this pipe: {_describe(first, on_pipe.lost[0])}"
    by_compiler = compare(first, second, lambda a, b: False)
    if len(by_compiler.lost):
        pair = by_compiler.lost[0]
        return 2, f"the device compiler orders these units itself: {_describe(first, pair)}"
    carried = _carried(first, comparison, deleted)
    if carried is None:
        return 0, "orders no two accesses that conflict"
    a, b = (int(second.accesses[comparison.partner[n]].event) for n in carried)
    labels = [second.graph.labels[event] for event in second.graph.path(a, b)]
    carriers = [label for label in labels if isinstance(label, ir.Stmt)]
    names = dict.fromkeys(str(place_of(s) or _operation(s)) for s in carriers)
    how = ", ".join(names) or "one edge"
    return 1, f"implied: {_describe(first, carried)} stays ordered by {how}"


def _carried(
    first: Execution, comparison: Comparison, deleted: Collection[Place]
) -> Numbers | None:
    """A pair of conflicting accesses that the deleted places order, among other things.

    The closest one says most, and one of the core that waits more than others.
    """
    graph = first.graph
    waits = [i for i, label in enumerate(graph.labels) if _waits(label, deleted)]
    events = first.events()[comparison.kept]
    if not waits or not len(events):
        return None
    clocks = graph.clocks()
    chains, positions = np.array(graph.chain_of), np.array(graph.position)
    before, later = events[:, 0], events[:, 1]
    best = None
    for wait in waits[:: max(1, len(waits) // _EXAMPLES)]:
        complete = clocks[wait, chains[before]] >= positions[before]
        chain, position = chains[wait], positions[wait]
        follows = clocks[later, chain] >= position
        follows |= (chains[later] == chain) & (positions[later] > position)
        found = np.flatnonzero(complete & follows)
        if len(found):
            core = chain // AGENTS_PER_CORE
            elsewhere = (chains[events[found]] // AGENTS_PER_CORE != core).any(axis=1)
            distance = (later - before)[found] + elsewhere * len(graph)
            nearest = int(np.argmin(distance))
            rank = (int(distance[nearest]), int(found[nearest]))
            best = rank if best is None else min(best, rank)
    return None if best is None else np.asarray(comparison.kept[best[1]])


def _waits(label: object, deleted: Collection[Place]) -> bool:
    """Whether an event is the receiving side of one of the places."""
    if not isinstance(label, ir.Stmt) or isinstance(label, (ir.SetFlag, ir.SetCrossFlag)):
        return False
    return place_of(label) in deleted


def _describe(execution: Execution, pair: Numbers) -> str:
    return " before ".join(_access(execution, int(number)) for number in pair)


def _access(execution: Execution, number: int) -> str:
    access = execution.accesses[number]
    pipe = PIPES[execution.graph.chain_of[access.event] % AGENTS_PER_CORE]
    stmt = execution.graph.labels[access.event]
    line = f" at line {stmt.loc.line}" if isinstance(stmt, ir.Stmt) else ""
    return f"{pipe} {'write' if access.write else 'read'}{line}"


def _operation(stmt: ir.Stmt) -> str:
    name = stmt.op if isinstance(stmt, ir.TileOp) else "scalar access"
    return f"{name} at line {stmt.loc.line}"
