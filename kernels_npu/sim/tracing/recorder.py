"""`trace(path)`: which launches and blocks go into a trace, and where their time axes start."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from kernels_npu.errors import UsageError
from kernels_npu.evidence import Evidence
from kernels_npu.sim.tracing.chrome_file import ChromeTraceFile

AXIS_LABEL = "1 us on this axis = 1 modelled cycle, not time"
_CORES = ("AIC", "AIV0", "AIV1")


class LaunchTrace:
    """One launch on the trace's axis.

    Blocks are dealt to the chip's cores in turn: block `b` starts when block `b - cores` has ended.
    """

    def __init__(self, recorder: TraceRecorder, kernel: str, cores: int) -> None:
        self.kernel = kernel
        self.start = recorder.now
        self._recorder = recorder
        self._number = recorder.number_of(kernel)
        self._free = [recorder.now] * cores

    @property
    def file(self) -> ChromeTraceFile:
        """Where its events go."""
        return self._recorder.file

    def start_block(self, block: int, cores: Sequence[int]) -> Iterator[tuple[int, int | None]]:
        """Per core of `block`: the cycle at which it starts, and its process, None if left out."""
        start = self._free[block % len(self._free)]
        taken = self._recorder.takes_block(block)
        for core in cores:
            name = f"{self.kernel} #{self._number} block {block} {_CORES[core]}"
            yield start, self.file.process(name, AXIS_LABEL) if taken else None

    def end_block(self, block: int, cycle: int) -> None:
        """A core of `block` has finished at `cycle`."""
        place = block % len(self._free)
        self._free[place] = max(self._free[place], cycle)

    @property
    def critical_path(self) -> int:
        """Modelled cycles from the launch's start to the end of its last block."""
        return max(self._free) - self.start


class TraceRecorder:
    """Collects the launches made while it is active into one file.

    Args:
        path: the JSON file.
        blocks: how many blocks of a launch are written, from block 0 on.
        launches: how many launches are recorded; later ones run untraced.
        events: once the file holds this many, nothing is added; launches still have their length.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        blocks: int = 8,
        launches: int = 16,
        events: int = 1_000_000,
    ) -> None:
        if min(blocks, launches, events) < 1:
            raise UsageError(
                "AI-CLI-001",
                f"a trace of {blocks} blocks, {launches} launches and {events} events",
                fix="use at least 1 of each",
            )
        self.file = ChromeTraceFile(Path(path), events)
        self.limits = {"blocks": blocks, "launches": launches}
        self.now = 0
        self.launches = 0
        self._of_kernel: Counter[str] = Counter()
        self.launches_left_out = 0
        self.blocks_left_out = 0
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def launch(self, kernel: str, cores: int) -> Iterator[LaunchTrace]:
        """A launch that is recorded; launches follow each other on the axis."""
        with self._lock:
            trace = LaunchTrace(self, kernel, cores)
            try:
                yield trace
            finally:
                self.launches += 1
                self._of_kernel[kernel] += 1
                self.now += max(trace.critical_path, 1)

    def number_of(self, kernel: str) -> int:
        """How many launches of `kernel` are recorded so far."""
        return self._of_kernel[kernel]

    def takes_launch(self) -> bool:
        """Whether the next launch is to be recorded; counts it when not."""
        if self.launches < self.limits["launches"]:
            return True
        self.launches_left_out += 1
        return False

    def takes_block(self, block: int) -> bool:
        """Whether `block` is to be written; counts it when not."""
        if block < self.limits["blocks"] and not self.file.full:
            return True
        self.blocks_left_out += 1
        return False

    def summary(self) -> str:
        """What is in the trace and what was left out, in one sentence."""
        text = f"{self.launches} launch{'es' * (self.launches != 1)}, {self.file.events:,} events"
        left = []
        if self.blocks_left_out:
            left.append(f"{self.blocks_left_out} blocks (--trace-blocks)")
        if self.file.full:
            left.append("what came after the event limit")
        if self.launches_left_out:
            left.append(f"{self.launches_left_out} launches (--trace-launches)")
        return text + (f"; left out: {', '.join(left)}" if left else "")

    def to_dict(self) -> dict[str, object]:
        """What is in the trace, JSON-ready."""
        return {
            "file": str(self.file.path),
            "events": self.file.events,
            "complete": not self.file.full,
            "launches": self.launches,
            "launches_left_out": self.launches_left_out,
            "blocks_left_out": self.blocks_left_out,
        }

    def close(self) -> None:
        """Write the metadata and give the file its name."""
        from kernels_npu.sim.machine.cost import MODEL

        self.file.close(
            {
                "time axis": f"modelled cycles of the cost model {MODEL}: 1 us on the axis is 1 "
                "cycle; it is not time, and not a measurement",
                "cycle_model": MODEL,
                "evidence": {"bytes": str(Evidence.SIMULATED), "cycles": str(Evidence.MODELLED)},
                **{key: value for key, value in self.to_dict().items() if key != "file"},
            }
        )


_active: list[TraceRecorder] = []


def active_recorder() -> TraceRecorder | None:
    """The recorder of the innermost `trace` block, if any."""
    return _active[-1] if _active else None


@contextlib.contextmanager
def trace(
    path: str | os.PathLike[str],
    *,
    blocks: int = 8,
    launches: int = 16,
    events: int = 1_000_000,
) -> Iterator[TraceRecorder]:
    """Trace the launches of all threads in the body into `path`, for ui.perfetto.dev.

    The axis is modelled cycles, not time. The file appears when the body ends, also by an error.

    Raises:
        UsageError: AI-CLI-004 when the file cannot be written.
    """
    recorder = TraceRecorder(path, blocks=blocks, launches=launches, events=events)
    _active.append(recorder)
    try:
        yield recorder
    finally:
        _active.remove(recorder)
        recorder.close()
