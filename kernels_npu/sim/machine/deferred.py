"""Pipe queues of a core whose instructions take effect later than they are issued."""

from __future__ import annotations

from collections import deque
from typing import Any

from kernels_npu.sim.machine.core_runtime import CoreRuntime
from kernels_npu.sim.machine.shadow import PIPES

#: Pipes from the end of the data flow to its start: the order that delays loads the longest.
DOWNSTREAM_FIRST = ("MTE3", "FIX", "V", "M", "MTE1", "MTE2")


class EventCounters:
    """Flags that have been set by executed instructions: (src, dst, event) -> count."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, Any], int] = {}

    def add(self, key: tuple[str, str, Any]) -> None:
        """A set takes effect."""
        self._counts[key] = self._counts.get(key, 0) + 1

    def ready(self, key: tuple[str, str, Any]) -> bool:
        """Whether `take` would succeed."""
        return self._counts.get(key, 0) > 0

    def take(self, key: tuple[str, str, Any]) -> bool:
        """Consume a set if there is one."""
        count = self._counts.get(key, 0)
        if count == 0:
            return False
        self._counts[key] = count - 1
        return True

    def clear(self) -> None:
        """Forget leftover sets (between blocks)."""
        self._counts.clear()


class PipeQueues:
    """The issued but not yet effective instructions of one core, in order per pipe.

    Items are ('op', kernel, arguments, site), ('set', dst, event), ('wait', src, event) and
    ('cross', flag, mode, site, clock).
    """

    def __init__(self, runtime: CoreRuntime) -> None:
        self._runtime = runtime
        self.events = EventCounters()
        #: site of the instruction that is taking effect, -1 between instructions
        self.executing = -1
        self.by_pipe: dict[str, deque[tuple[Any, ...]]] = {pipe: deque() for pipe in PIPES[1:]}

    def idle(self, pipes: tuple[str, ...]) -> bool:
        """Whether nothing is pending on `pipes`."""
        return not any(self.by_pipe[pipe] for pipe in pipes)

    def pending(self) -> bool:
        """Whether any instruction has yet to take effect."""
        return any(self.by_pipe.values())

    def step(self, pipe: str) -> bool:
        """Let `pipe`'s next instruction take effect; False when it must wait or there is none."""
        queue = self.by_pipe[pipe]
        if not queue:
            return False
        item = queue[0]
        kind = item[0]
        if kind == "op":
            self.executing = item[3]
            item[1](*item[2])
            self.executing = -1
        elif kind == "set":
            self.events.add((pipe, item[1], item[2]))
        elif kind == "wait":
            if not self.events.take((item[1], pipe, item[2])):
                return False
        else:
            _, flag, mode, site, clock = item
            self._runtime.cross_arrived(site, flag, mode, clock)
        queue.popleft()
        return True

    def blocked_on(self) -> list[str]:
        """What each pipe's next instruction waits for, for the deadlock report."""
        waits = []
        for pipe, queue in self.by_pipe.items():
            if queue and queue[0][0] == "wait":
                waits.append(f"PIPE_{pipe} waits for a flag from PIPE_{queue[0][1]}")
        return waits
