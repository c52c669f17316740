"""A Chrome trace file (JSON object format), written event by event under a temporary name."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from kernels_npu.errors import UsageError

#: Thread order of a core: the way of the data.
THREADS = ("S", "MTE2", "MTE1", "M", "V", "FIX", "MTE3")
_TID = {pipe: number for number, pipe in enumerate(THREADS, start=1)}


class ChromeTraceFile:
    """Writes events as they come, so that a long trace needs no memory; `close` moves the file.

    Timestamps and durations are whole numbers: modelled cycles where the format has microseconds.
    """

    def __init__(self, path: Path, limit: int) -> None:
        # The process may change its working directory before the file is moved.
        self.path = path.absolute()
        self._temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")
        try:
            if self.path.is_dir():
                raise IsADirectoryError("it is a folder")
            self._file = self._temporary.open("w", encoding="utf-8")
        except OSError as error:
            raise UsageError(
                "AI-CLI-004",
                f"cannot write the trace {path}: {error.strerror or error}",
                fix="name a file in an existing folder that you may write to",
            ) from error
        self._file.write('{"displayTimeUnit":"ns","traceEvents":[\n')
        self._separator = ""
        self.events = 0
        self._limit = limit
        self._processes = 0
        self._flows = 0

    def _event(self, text: str) -> None:
        self._file.write(self._separator + text)
        self._separator = ",\n"
        self.events += 1

    @property
    def full(self) -> bool:
        """Whether the file holds as many events as it may; writers stop by themselves."""
        return self.events >= self._limit

    def process(self, name: str, label: str) -> int:
        """Declare a process with one thread per pipe; its number."""
        self._processes += 1
        pid = self._processes
        for kind, args in (
            ("process_name", {"name": name}),
            ("process_labels", {"labels": label}),
            ("process_sort_index", {"sort_index": pid}),
        ):
            self._event(json.dumps({"ph": "M", "name": kind, "pid": pid, "args": args}))
        for pipe, tid in _TID.items():
            for kind, args in (
                ("thread_name", {"name": pipe}),
                ("thread_sort_index", {"sort_index": tid}),
            ):
                meta = {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": args}
                self._event(json.dumps(meta))
        return pid

    def slice(
        self, pid: int, pipe: str, start: int, length: int, name: str, category: str, args: str
    ) -> None:
        """One slice; `args` is the inside of a JSON object."""
        self._event(
            f'{{"ph":"X","pid":{pid},"tid":{_TID[pipe]},"ts":{start},"dur":{length},'
            f'"name":{name},"cat":"{category}","args":{{{args}}}}}'
        )

    def arrow(self, tail: tuple[int, str, int], head: tuple[int, str, int]) -> None:
        """A flow between two points (process, pipe, cycle), each covered by a slice."""
        self._flows += 1
        for phase, more, (pid, pipe, when) in (("s", "", tail), ("f", ',"bp":"e"', head)):
            self._event(
                f'{{"ph":"{phase}","id":{self._flows},"pid":{pid},"tid":{_TID[pipe]},"ts":{when},'
                f'"name":"flag","cat":"flag"{more}}}'
            )

    def counter(self, pid: int, when: int, name: str, value: int) -> None:
        """A sample of the counter track `name`."""
        self._event(
            f'{{"ph":"C","pid":{pid},"ts":{when},"name":"{name}","args":{{"value":{value}}}}}'
        )

    def close(self, metadata: Mapping[str, object]) -> None:
        """Finish the file and give it its name."""
        self._file.write(f'\n],"otherData":{json.dumps(metadata)}}}\n')
        self._file.close()
        os.replace(self._temporary, self.path)

    def discard(self) -> None:
        """Leave nothing behind."""
        self._file.close()
        self._temporary.unlink(missing_ok=True)
