"""Cross-core flags: counters per core and flag id, with the quorum rules of the three modes.

mode 2: a set by the AIC signals all AIVs of the block; the AIC is signalled when all have set.
mode 1: when all AIVs of the block have set, each of them is signalled.
mode 0: when all AICs (or all AIVs) of the launch have set, each of them is signalled.

A set is outstanding until the core that set it knows, by a flag that came back, of the wait that
took it: a wait that merely happened earlier in this schedule may happen later on the device.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque

from kernels_npu.sim.machine.monitor import Clock
from kernels_npu.sim.machine.shadow import AGENTS_PER_CORE, CORES_PER_BLOCK

#: More outstanding sets than the hardware counter holds.
COUNTER_LIMIT = 15

CoreKey = tuple[int, int]  # (block slot, core index: 0 AIC, 1 and 2 the AIVs)


class CrossFlags:
    """Flag state of the blocks that are alive together."""

    def __init__(self, slots: int, vector_cores: int) -> None:
        self._slots = slots
        self._vectors = tuple(range(1, 1 + vector_cores))
        self._signals: dict[tuple[CoreKey, int], deque[Clock | None]] = {}
        self._pending: dict[tuple[int, int, int, int], dict[CoreKey, deque[Clock | None]]] = {}
        self._sets: dict[tuple[CoreKey, int], int] = {}
        #: per core and flag the times, by the core's scalar unit, of the waits that took a signal
        self._takes: dict[tuple[CoreKey, int], list[int]] = {}
        #: per core that is signalled, and flag: the core and site of the last set
        self._set_at: dict[tuple[CoreKey, int], tuple[int, int]] = {}

    def arrive(
        self, slot: int, core: int, flag: int, mode: int, clock: Clock | None, site: int = -1
    ) -> int:
        """A core's set (at `site`) reaches the flag unit; how many of its sets are outstanding."""
        setter = (slot, core)
        self._sets[(setter, flag)] = self._sets.get((setter, flag), 0) + 1
        group, members, targets = self.quorum(slot, core, flag, mode)
        pending = self._pending.setdefault(group, {})
        pending.setdefault(setter, deque()).append(clock)
        signalled = 0
        for target in (setter, *targets):
            self._set_at[(target, flag)] = (core, site)
        if all(pending.get(member) for member in members):
            merged = _merge([pending[member].popleft() for member in members])
            signalled = max(self._signal(target, flag, merged) for target in targets)
        if clock is None:
            return signalled
        return max(self._unknown(setter, target, flag, clock) for target in targets)

    def _unknown(self, setter: CoreKey, target: CoreKey, flag: int, clock: Clock) -> int:
        """Sets of `setter` that `target` has not taken as far as `clock` knows."""
        number = target[0] * CORES_PER_BLOCK + target[1]
        known = clock[number * AGENTS_PER_CORE]
        taken = bisect_right(self._takes.get((target, flag), []), known)
        return self._sets[(setter, flag)] - taken

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

    def _signal(self, target: CoreKey, flag: int, clock: Clock | None) -> int:
        queue = self._signals.setdefault((target, flag), deque())
        queue.append(clock)
        return len(queue)

    def ready(self, slot: int, core: int, flag: int) -> bool:
        """Whether a wait would pass."""
        return bool(self._signals.get(((slot, core), flag)))

    def take(self, slot: int, core: int, flag: int) -> Clock | None:
        """Consume one signal; the clock it carries."""
        return self._signals[((slot, core), flag)].popleft()

    def taken(self, slot: int, core: int, flag: int, when: int) -> None:
        """The core's scalar unit took a signal at its time `when`."""
        self._takes.setdefault(((slot, core), flag), []).append(when)

    def sets_of(self, slot: int, flag: int) -> dict[int, int]:
        """How often each core of a block has set a flag so far."""
        return {
            core: count
            for ((at, core), name), count in sorted(self._sets.items())
            if at == slot and name == flag
        }

    def leftovers(self) -> list[tuple[CoreKey, int, int, tuple[int, int]]]:
        """(core, flag, count, (core, site) of the last set) of flags that are still set.

        Sets whose quorum never completed are listed under the core that set them.
        """
        left = [(*key, len(q)) for key, q in self._signals.items() if q]
        for (_, _, _, flag), members in self._pending.items():
            left += [(core, flag, len(q)) for core, q in members.items() if q]
        return [(core, flag, n, self._set_at[(core, flag)]) for core, flag, n in left]


def _merge(clocks: list[Clock | None]) -> Clock | None:
    known = [c for c in clocks if c is not None]
    if len(known) < 2:
        return known[0] if known else None
    return [max(each) for each in zip(*known)]
