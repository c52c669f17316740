"""Which file a worker takes next: the first for which there is memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

#: GiB of a file that nothing is known of, with some to spare.
ORDINARY = 1.5
#: Files that need more reach it late, with their references: whether two of them fit is a matter of
#: all memory, and not of what is free when the second could start.
LARGE = 4.0
#: Seconds after which a worker that found no memory looks again.
PAUSE = 2.0


def free_memory() -> float:
    """GiB that processes could take now."""
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) / 2**20
    return float("inf")


class Waiting:
    """The files that wait, in the order in which they are best started.

    needs: GiB by file. free: what is free now; when the first file starts it is all there is.
    """

    def __init__(
        self,
        files: Sequence[str],
        needs: Mapping[str, float],
        free: Callable[[], float] = free_memory,
    ) -> None:
        self._files = list(files)
        self._needs = needs
        self._free = free
        self._all = free()
        self._running: list[str] = []
        self._changed = threading.Condition()

    def take(self) -> str | None:
        """The next file; waits until one fits. None when no file is left."""
        with self._changed:
            while self._files:
                for file in self._files:
                    if not self._running or self._fits(file):
                        self._files.remove(file)
                        self._running.append(file)
                        return file
                self._changed.wait(PAUSE)
            return None

    def done(self, file: str) -> None:
        """`file` has left its memory to others."""
        with self._changed:
            self._running.remove(file)
            self._changed.notify_all()

    def stop(self) -> None:
        """Start nothing more."""
        with self._changed:
            self._files.clear()
            self._changed.notify_all()

    def _fits(self, file: str) -> bool:
        """Whether `file` can start beside those that run; one that never fits runs alone."""
        need = self._need(file)
        if need <= LARGE:
            return need <= self._free()
        others = (self._need(other) for other in self._running)
        return need + sum(other for other in others if other > LARGE) <= self._all

    def _need(self, file: str) -> float:
        return self._needs.get(file, ORDINARY)
