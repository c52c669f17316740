"""Which file a worker takes next: the first for which there is memory."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

#: GiB of a file that nothing is known of.
ORDINARY = 1.0


def memory_to_use() -> float:
    """GiB that processes may take together: what the machine has free now, less a little."""
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) / 2**20 - 1
    return float("inf")


class Waiting:
    """The files that wait, in the order in which they are best started.

    needs: GiB by file. A file that fits beside nothing runs alone.
    """

    def __init__(self, files: Sequence[str], needs: Mapping[str, float], memory: float) -> None:
        self._files = list(files)
        self._needs = needs
        self._memory = memory
        self._running: list[str] = []
        self._changed = threading.Condition()

    def take(self) -> str | None:
        """The next file; waits until one fits. None when no file is left."""
        with self._changed:
            while self._files:
                used = sum(map(self._need, self._running))
                for file in self._files:
                    if not self._running or used + self._need(file) <= self._memory:
                        self._files.remove(file)
                        self._running.append(file)
                        return file
                self._changed.wait()
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

    def _need(self, file: str) -> float:
        return self._needs.get(file, ORDINARY)
