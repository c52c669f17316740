"""A capture in progress: what it has recorded and what it forbids."""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from kernels_npu.sim.device.errors import CaptureError, acl_text
from kernels_npu.sim.device.ordering import Access, Touch, enqueue_recorded
from kernels_npu.sim.device.pool import GraphPool, Output, PoolSlot
from kernels_npu.sim.device.stalls import Marker
from kernels_npu.sim.device.state import StreamState, process

if TYPE_CHECKING:
    from kernels_npu.sim.device.task_groups import _NPUTaskGroupHandle

#: The runtime calls behind blocking reads and copies, for messages.
WAIT_CALL = "aclrtSynchronizeStreamWithTimeout"
COPY_CALL = "aclrtMemcpyAsync"
MODES = ("global", "thread_local", "relaxed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One recorded piece of work. `run` does it.

    kind: `op`, `copy`, `kernel`, or `marker` for what concerns the order of streams only.
    writes: address and byte range of everything that it writes.
    """

    run: Callable[[], Any]
    name: str
    kind: str
    stream: int
    writes: tuple[tuple[int, int, int], ...] = ()

    @classmethod
    def of(
        cls,
        run: Callable[[], Any],
        name: str,
        kind: str,
        stream: StreamState,
        touched: Sequence[Touch],
    ) -> Step:
        """A step that touches what `touched` says."""
        writes = tuple((t.block.base.data_ptr(), t.start, t.stop) for t in touched if t.write)
        return cls(run=run, name=name, kind=kind, stream=stream.uid, writes=writes)


class CaptureSession:
    """Everything between `capture_begin` and `capture_end`.

    pool_memory: address -> bytes of the pool's memory that the capture uses, also where no tensor
    looks at it any more. host_sources: host tensors that a replay copies from. calls: what a
    replay runs, parallel to `steps`, once the capture has ended. group: the open task group.
    """

    def __init__(self, stream: StreamState, pool: GraphPool, mode: str) -> None:
        self.stream = stream
        self.pool = pool
        self.mode = mode
        self.thread = threading.get_ident()
        self.steps: list[Step] = []
        self.ops: Counter[str] = Counter()
        self.launches: Counter[str] = Counter()
        self.joined: dict[int, StreamState] = {stream.uid: stream}
        self.error: BaseException | None = None
        self.touched: dict[int, Touch] = {}
        self.pool_memory: dict[int, int] = {}
        self.host_sources: list[torch.Tensor] = []
        self.calls: list[Callable[[], Any]] = []
        self.group: _NPUTaskGroupHandle | None = None
        self._outputs: dict[int, Output] = {}
        self._order: dict[int, list[Access]] = {}
        self._start = {stream.uid: stream.seq}

    def record(
        self,
        stream: StreamState,
        run: Callable[[], Any],
        name: str,
        touched: Sequence[Touch],
        *,
        kind: str = "op",
    ) -> None:
        """Append work of `stream` after checking its order against the rest of the capture."""
        self.check()
        enqueue_recorded(stream, self._order, touched, name)
        for touch in touched:
            self._remember(touch)
        self.steps.append(Step.of(run, name, kind, stream, touched))
        (self.launches if kind == "kernel" else self.ops)[name] += 1

    def mark(self, stream: StreamState, marker: Marker, name: str) -> None:
        """Append something that orders streams at each replay."""
        self.check()
        self.steps.append(Step.of(marker, name, "marker", stream, ()))

    def _remember(self, touch: Touch) -> None:
        """Note what a replay reads and writes.

        The pool's own blocks are held weakly, so that they die with their tensors and their memory
        is used again.
        """
        block = touch.block
        key = block.base.data_ptr()
        owner = block.owner
        if isinstance(owner, PoolSlot) and owner.pool is self.pool:
            self.pool_memory[key] = owner.memory.numel()
            self._outputs[key] = Output(weakref.ref(block), touch.start, touch.stop)
            return
        self.touch(touch)

    def touch(self, touch: Touch) -> None:
        """Let replays read or write memory that is not of the pool."""
        key = touch.block.base.data_ptr()
        old = self.touched.get(key)
        if old is not None:
            start, stop = min(old.start, touch.start), max(old.stop, touch.stop)
            touch = Touch(old.block, start, stop, old.write or touch.write)
        self.touched[key] = touch

    def outputs(self) -> list[Output]:
        """Blocks of the pool that outlive the capture."""
        return [o for o in self._outputs.values() if o.block() is not None]

    def join(self, stream: StreamState) -> None:
        """`stream` waits for an event of this capture and so becomes part of it."""
        if stream.session is None:
            stream.session = self
            self.joined[stream.uid] = stream
            self._start[stream.uid] = stream.seq

    def unjoined(self) -> list[StreamState]:
        """Side streams with work that the capturing stream does not wait for."""
        known = self.stream.known
        return [
            s
            for s in self.joined.values()
            if s is not self.stream and s.seq > self._start[s.uid] and known.get(s.uid, 0) < s.seq
        ]

    def fail(self, error: CaptureError) -> CaptureError:
        """Invalidate the capture; the first error is kept."""
        if self.error is None:
            self.error = error
        return error

    def check(self) -> None:
        """Refuse more work once the capture is invalid."""
        if self.error is not None:
            raise CaptureError(
                "AI-CAP-013",
                acl_text("aclrtLaunchKernel", 507903, "capture invalidated"),
                acl_error=507903,
                rule="after the first error a capture takes no more work",
                fix=f"mend the first error: {self.error}",
            ) from self.error

    def close(self) -> None:
        """Take all streams out of the capture."""
        for stream in self.joined.values():
            stream.session = None
        process.session = None


def _concerned() -> CaptureSession | None:
    session = process.session
    if session is None:
        return None
    elsewhere = session.mode != "global" and session.thread != threading.get_ident()
    return None if elsewhere else session


def forbid(call: str) -> None:
    """Refuse a synchronisation or query while a capture is in progress.

    Raises:
        CaptureError: AI-CAP-001 (107027).
    """
    session = _concerned()
    if session is not None:
        raise session.fail(
            CaptureError(
                "AI-CAP-001",
                acl_text(call, 107027, "stream is captured"),
                acl_error=107027,
                rule=".item(), .cpu(), print, bool(tensor) and every synchronise or query of a "
                "stream, event or device are illegal during capture, in every mode",
                fix="move it out of the capture, or keep the value on the device",
            )
        )


def forbid_pageable(call: str) -> None:
    """Refuse a copy with pageable host memory while capturing, unless the mode is relaxed.

    Raises:
        CaptureError: AI-CAP-002 (107030).
    """
    session = _concerned()
    if session is not None and session.mode != "relaxed":
        raise session.fail(
            CaptureError(
                "AI-CAP-002",
                acl_text(call, 107030, "operation not permitted in capture mode"),
                acl_error=107030,
                rule="a captured copy from or to the host needs pinned memory "
                "and non_blocking=True",
                fix="copy before the capture into a static buffer, or use "
                "static.copy_(source.pin_memory(), non_blocking=True)",
            )
        )


def forbid_generator(method: str) -> None:
    """Refuse to read or set a generator's state while capturing.

    Raises:
        CaptureError: AI-CAP-008.
    """
    session = _concerned()
    if session is not None:
        raise session.fail(
            CaptureError(
                "AI-CAP-008",
                f"Cannot call NPUGeneratorImpl::{method} while in capture mode during NPU graph "
                "capture. If you need this call to be captured, please file an issue. "
                "Current npuStreamCaptureStatus: npuStreamCaptureStatusActive",
                rule="random operations are graph safe, access to the generator's state is not",
                fix="seed and save the state before the capture",
            )
        )
