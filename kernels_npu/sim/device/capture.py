"""A capture in progress: what it has recorded, what it forbids, and the memory pool of its graph."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kernels_npu.sim.device.errors import CaptureError, acl_text
from kernels_npu.sim.device.memory import CPU, Block, poisoned, wrap
from kernels_npu.sim.device.ordering import Access, Touch, enqueue_recorded
from kernels_npu.sim.device.state import DeviceState, StreamState, process

MODES = ("global", "thread_local", "relaxed")
#: Requests are rounded up to this, as the caching allocator does, so that freed pool memory fits again.
_UNIT = 512
_set_geometry = torch.ops.aten.set_.source_Storage_storage_offset._op
_empty = torch.ops.aten.empty.memory_format._op
_pool_ids = itertools.count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One recorded piece of work. `run` does it; `kind` is `op`, `copy` or `kernel`."""

    run: Callable[[], Any]
    name: str
    kind: str
    stream: int


@dataclass(frozen=True, slots=True)
class Output:
    """Memory of the pool that a replay writes, for as long as a tensor looks at it."""

    block: weakref.ref[Block]
    start: int
    stop: int


class GraphPool:
    """Private memory of one or several graphs: kept until the last of them is reset.

    Memory of a tensor that died is given to later requests on the same stream, in this capture or in the
    next one that shares the pool, as on the device.
    """

    def __init__(self, device: DeviceState) -> None:
        self.device = device
        self.id = (0, next(_pool_ids))
        self.graphs = 0
        self.bytes = 0
        self._free: dict[tuple[int, int], list[torch.Tensor]] = {}
        self._held: list[torch.Tensor] = []

    def tensor(
        self, stream: StreamState, shape: Sequence[int], stride: Sequence[int], dtype: torch.dtype
    ) -> torch.Tensor:
        """A poisoned npu tensor with a fixed address."""
        count = 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, stride))
        size = -(-count * dtype.itemsize // _UNIT) * _UNIT
        key = (stream.uid, size)
        free = self._free.get(key)
        memory = free.pop() if free else self._grow(size)
        typed = _empty([0], dtype=dtype, device=CPU)
        _set_geometry(typed, memory.untyped_storage(), 0, shape, stride)
        return wrap(typed, self.device.index, owner=_Slot(self, key, memory))

    def _grow(self, size: int) -> torch.Tensor:
        memory = poisoned((size,), None, torch.uint8)
        self._held.append(memory)
        self.bytes += size
        self.device.reserved += size
        return memory

    def give_back(self, key: tuple[int, int], memory: torch.Tensor) -> None:
        """Make the memory of a dead tensor available again."""
        if self.graphs:
            self._free.setdefault(key, []).append(memory)

    def attach(self) -> None:
        """One more graph lives in this pool."""
        self.graphs += 1

    def detach(self) -> None:
        """A graph was reset; the last one takes the memory with it."""
        self.graphs -= 1
        if self.graphs == 0:
            self.device.reserved -= self.bytes
            self.bytes = 0
            self._free.clear()
            self._held.clear()


class _Slot:
    """Returns a block's memory to its pool when the last tensor over it dies."""

    __slots__ = ("key", "memory", "pool")

    def __init__(self, pool: GraphPool, key: tuple[int, int], memory: torch.Tensor) -> None:
        self.pool = pool
        self.key = key
        self.memory = memory

    def release(self, block: Block) -> None:
        self.pool.give_back(self.key, self.memory)


class CaptureSession:
    """Everything between `capture_begin` and `capture_end`."""

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
        self.steps.append(Step(run=run, name=name, kind=kind, stream=stream.uid))
        (self.launches if kind == "kernel" else self.ops)[name] += 1

    def _remember(self, touch: Touch) -> None:
        """Note what a replay reads and writes. The pool's own blocks are held weakly, so that they die
        with their tensors and their memory is used again."""
        block = touch.block
        key = block.base.data_ptr()
        owner = block.owner
        if isinstance(owner, _Slot) and owner.pool is self.pool:
            self._outputs[key] = Output(weakref.ref(block), touch.start, touch.stop)
            return
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
            if s is not self.stream
            and s.seq > self._start[s.uid]
            and known.get(s.uid, 0) < s.seq
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
                rule=".item(), .cpu(), print, bool(tensor) and every synchronise or query of a stream, "
                "event or device are illegal during capture, in every mode",
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
                rule="a captured copy from or to the host needs pinned memory and non_blocking=True",
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
                f"Cannot call NPUGeneratorImpl::{method} while in capture mode during NPU graph capture. "
                "If you need this call to be captured, please file an issue. "
                "Current npuStreamCaptureStatus: npuStreamCaptureStatusActive",
                rule="random operations are graph safe, access to the generator's state is not",
                fix="seed and save the state before the capture",
            )
        )
