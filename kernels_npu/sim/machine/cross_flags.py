"""Cross-core flags: counters per core and flag id, with the quorum rules of the three modes.

mode 2: a set by the AIC signals all AIVs of the block; the AIC is signalled when all have set.
mode 1: when all AIVs of the block have set, each of them is signalled.
mode 0: when all AICs (or all AIVs) of the launch have set, each of them is signalled.

A set is outstanding until the core that set it knows, by a flag that came back, of the wait that
took it: a wait that merely happened earlier in this schedule may happen later on the device.
"""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from kernels_npu.sim.machine.clocks import Clocks, all_joined
from kernels_npu.sim.machine.shadow import CORES_PER_BLOCK, PIPE_INDEX

_SCALAR = PIPE_INDEX["S"]

#: More outstanding sets than the hardware counter holds.
COUNTER_LIMIT = 15

CoreKey = tuple[int, int]  # (block slot, core index: 0 AIC, 1 and 2 the AIVs)


Signals = deque[Clocks | None]


@dataclass(eq=False, slots=True)
class Target:
    """A core's side of a flag.

    core: its number among all that are alive. signals: those that it has not taken. takes:
    the times, by the scalar unit, of the waits that took one.
    """

    core: int
    signals: Signals = field(default_factory=deque)
    takes: list[int] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class _Sets:
    """How often a core has set a flag, in all modes."""

    count: int = 0


@dataclass(eq=False, slots=True)
class Route:
    """Where a core's sets of a flag go, in one mode.

    setter, targets: the core that sets and those that are signalled. sets: its sets of the flag.
    pending: those of this mode whose quorum is not complete. quorum: the pending sets of everyone
    who must have set. last: number and site of the last set.
    """

    setter: CoreKey
    targets: tuple[tuple[CoreKey, Target], ...]
    sets: _Sets
    pending: Signals
    quorum: tuple[Signals, ...]
    last: tuple[int, int] = (0, -1)


class CrossFlags:
    """Flag state of the blocks that are alive together."""

    def __init__(self, slots: int, vector_cores: int) -> None:
        self._slots = slots
        self._vectors = tuple(range(1, 1 + vector_cores))
        #: by flag, then slot, core and mode
        self._routes: dict[int, dict[tuple[int, int, int], Route]] = {}
        self._targets: dict[tuple[CoreKey, int], Target] = {}
        self._sets_of: dict[tuple[CoreKey, int], _Sets] = {}
        self._pending: dict[tuple[int, int, int, int], dict[CoreKey, Signals]] = {}
        self._sets = 0

    def reset(self) -> None:
        """Nothing is set (before the next blocks)."""
        self._sets = 0
        for target in self._targets.values():
            target.signals.clear()
            target.takes.clear()
        for routes in self._routes.values():
            for route in routes.values():
                route.pending.clear()
                route.sets.count, route.last = 0, (0, -1)

    def arrive(self, route: Route, clocks: Clocks | None, site: int = -1) -> int:
        """A core's set (at `site`) reaches the flag unit; how many of its sets are outstanding."""
        self._sets += 1
        sets = route.sets
        sets.count = count = sets.count + 1
        route.last = (self._sets, site)
        route.pending.append(clocks)
        signalled = 0
        if all(route.quorum):
            merged = _merge([pending.popleft() for pending in route.quorum])
            for _, target in route.targets:
                target.signals.append(merged)
                signalled = max(signalled, len(target.signals))
        if clocks is None:
            return signalled
        # Those that no target is known to have taken: by what came back to the core that set.
        taken = count
        for _, target in route.targets:
            known = bisect_right(target.takes, clocks[target.core][_SCALAR])
            if known < taken:
                taken = known
        return count - taken

    def route(self, slot: int, core: int, flag: int, mode: int) -> Route:
        """Where the sets of a core go."""
        routes = self._routes.setdefault(flag, {})
        key = (slot, core, mode)
        return routes.get(key) or routes.setdefault(key, self._new_route(slot, core, flag, mode))

    def _new_route(self, slot: int, core: int, flag: int, mode: int) -> Route:
        group, members, targets = self.quorum(slot, core, flag, mode)
        pending = self._pending.setdefault(group, {})
        for member in members:
            pending.setdefault(member, deque())
        return Route(
            setter=(slot, core),
            targets=tuple((target, self.target(target, flag)) for target in targets),
            sets=self._sets_of.setdefault(((slot, core), flag), _Sets()),
            pending=pending.setdefault((slot, core), deque()),
            quorum=tuple(pending[member] for member in members),
        )

    def target(self, core: CoreKey, flag: int) -> Target:
        """The side of `core`, which waits for `flag`."""
        key = (core, flag)
        found = self._targets.get(key)
        if found is None:
            found = self._targets[key] = Target(core[0] * CORES_PER_BLOCK + core[1])
        return found

    def quorum(
        self, slot: int, core: int, flag: int, mode: int
    ) -> tuple[tuple[int, int, int, int], list[CoreKey], list[CoreKey]]:
        """Key of the group in which a core's set counts, who must have set, who is signalled."""
        group = (mode, -1 if mode == 0 else slot, min(core, 1), flag)
        return group, *self._group(slot, core, mode)

    def _group(self, slot: int, core: int, mode: int) -> tuple[list[CoreKey], list[CoreKey]]:
        own = [(slot, v) for v in self._vectors]
        if mode == 2 and core == 0:
            return [(slot, core)], own
        if mode == 2:
            return own, [(slot, 0)]
        if mode == 1:
            return own, own
        kind = (0,) if core == 0 else self._vectors
        everyone = [(s, c) for s in range(self._slots) for c in kind]
        return everyone, everyone

    def sets_of(self, slot: int, flag: int) -> dict[int, int]:
        """How often each core of a block has set a flag so far."""
        setters = {r.setter: r.sets for r in self._routes.get(flag, {}).values()}
        return {core: sets.count for (at, core), sets in sorted(setters.items()) if at == slot}

    def leftovers(self) -> list[tuple[CoreKey, int, int, tuple[int, int]]]:
        """(core, flag, count, (core, site) of the last set) of flags that are still set.

        Sets whose quorum never completed are listed under the core that set them.
        """
        left = [(*key, len(t.signals)) for key, t in self._targets.items() if t.signals]
        for (_, _, _, flag), members in self._pending.items():
            left += [(core, flag, len(q)) for core, q in members.items() if q]
        return [(core, flag, n, self._last_set(core, flag)) for core, flag, n in left]

    def _last_set(self, core: CoreKey, flag: int) -> tuple[int, int]:
        """Core and site of the last set that `core` made or was to be signalled by."""
        routes: Iterable[Route] = self._routes[flag].values()
        own = [r for r in routes if r.setter == core or any(t == core for t, _ in r.targets)]
        latest = max(own, key=lambda route: route.last)
        return latest.setter[1], latest.last[1]


def _merge(released: list[Clocks | None]) -> Clocks | None:
    if len(released) == 1:
        return released[0]
    known = [clocks for clocks in released if clocks is not None]
    return functools.reduce(all_joined, known) if known else None
