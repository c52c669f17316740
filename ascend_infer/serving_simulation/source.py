"""Requests as they come: at given times, or when others are over."""

from __future__ import annotations

import heapq
import math

from ascend_infer.serving_simulation.workload import Workload


class Source:
    """The arrivals that are still to come, by time."""

    def __init__(self, workload: Workload) -> None:
        self._count = len(workload.prompt_tokens)
        self._think = workload.think
        self._closed = workload.arrivals is None
        if workload.arrivals is None:
            clients = workload.load.concurrency or 1
            self._times = [0.0] * min(clients, self._count)
        else:
            self._times = workload.arrivals.tolist()  # ascending, so a heap
        self._issued = len(self._times)
        self.next_time = self._times[0]
        #: When each request arrived, so far.
        self.arrived: list[float] = []

    def pop(self) -> int:
        """The next request's index."""
        self.arrived.append(heapq.heappop(self._times))
        self.next_time = self._times[0] if self._times else math.inf
        return len(self.arrived) - 1

    def over(self, time: float) -> None:
        """A request has ended: in a closed loop its client sends the next one."""
        if self._closed and self._issued < self._count:
            self._issued += 1
            heapq.heappush(self._times, time + self._think)
            self.next_time = self._times[0]
