"""`torch.npu.NPUGraph` and `torch.npu.graph`: record on a stream, replay on the same memory."""

from __future__ import annotations

import gc
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, NoReturn

import torch

from kernels_npu.sim.device import streams
from kernels_npu.sim.device.capture import CaptureSession, Step
from kernels_npu.sim.device.capture_rules import check_begin, check_end
from kernels_npu.sim.device.counters import live
from kernels_npu.sim.device.errors import CaptureError, NotSimulatedError, acl_text
from kernels_npu.sim.device.in_flight import depart
from kernels_npu.sim.device.ordering import Touch, enqueue, host_waits_for, stream_clock
from kernels_npu.sim.device.pool import GraphPool, Output
from kernels_npu.sim.device.stalls import StalledWork, refuse_behind
from kernels_npu.sim.device.state import StreamState, current, process

_pools: dict[tuple[int, int], GraphPool] = {}


def graph_pool_handle() -> tuple[int, int]:
    """A token for a memory pool that several graphs can share."""
    pool = GraphPool(process.devices[current.device])
    _pools[pool.id] = pool
    return pool.id


def is_current_stream_capturing() -> bool:
    """Whether the current stream is part of a capture."""
    session = current.streams[current.device].session
    return session is not None and session is process.session


class NPUGraph:
    """One captured graph. Its memory lives until `reset` or the end of the object."""

    def __new__(cls) -> NPUGraph:
        return super().__new__(cls)

    def __init__(self) -> None:
        self._steps: list[Step] | None = None
        self._calls: list[Any] = []
        self._session: CaptureSession | None = None
        self._pool: GraphPool | None = None
        self._touched: dict[int, Touch] = {}
        self._outputs: list[Output] = []
        self._waits = False
        self._replay: StalledWork | None = None
        self._pool_memory: dict[int, int] = {}
        self._host_sources: list[torch.Tensor] = []
        self._ops: dict[str, int] = {}
        self._launches: dict[str, int] = {}
        self._occupied = 0

    def capture_begin(
        self, pool: tuple[int, int] | None = None, capture_error_mode: str = "global"
    ) -> None:
        """Start recording on the current stream.

        Raises:
            CaptureError: AI-CAP-003 on the default stream, 004 on a graph that is captured already,
                009 and 018 for environment settings that exclude capture, 010 for an unknown mode,
                015 while another capture runs, 017 on an external stream, 021 without a free
                stream.
        """
        stream = current.streams[current.device]
        captured = self._steps is not None or self._session is not None
        check_begin(captured, stream, capture_error_mode)
        self._pool = _find_pool(pool, stream)
        self._pool.attach()
        self._session = CaptureSession(stream, self._pool, capture_error_mode)
        stream.session = process.session = self._session

    def capture_end(self) -> None:
        """Stop recording; the graph is ready for replay.

        Raises:
            CaptureError: AI-CAP-006 on another stream, 007 for an unjoined side stream, 011 without
                a begin, 013 after an error inside, 020 on another thread, 022 in a task group.
        """
        session = self._session
        if session is None:
            raise CaptureError(
                "AI-CAP-011",
                acl_text("aclmdlRICaptureEnd", 107029, "not capturing"),
                acl_error=107029,
                rule="capture_end closes what capture_begin opened",
                fix="call capture_begin first, or use torch.npu.graph",
            )
        try:
            check_end(session)
            session.check()
        except CaptureError:
            self._abort()
            raise
        session.close()
        self._session = None
        self._occupied = len(session.joined)
        session.stream.device.graph_streams += self._occupied
        self._steps = session.steps
        self._calls = session.calls
        self._calls += [step.run for step in session.steps]
        self._waits = any(step.kind == "marker" for step in session.steps)
        self._touched = session.touched
        self._outputs = session.outputs()
        self._pool_memory = session.pool_memory
        self._host_sources = session.host_sources
        self._ops = dict(session.ops)
        self._launches = dict(session.launches)
        live.captures += 1

    def _abort(self) -> None:
        """Drop a capture that failed and put the streams back."""
        if self._session is not None:
            self._session.close()
            self._session = None
        self._release()

    def replay(self) -> None:
        """Run the recorded work on the current stream, in order, on the same memory."""
        if self._steps is None or self._pool is None:
            _not_captured("replay")
        stream = current.streams[self._pool.device.index]
        if process.session is not None:
            raise process.session.fail(
                CaptureError(
                    "AI-CAP-015",
                    acl_text("aclmdlRIExecuteAsync", 107030, "not permitted in capture mode"),
                    acl_error=107030,
                    rule="a graph cannot be replayed inside another capture",
                    fix="replay after the capture has ended",
                )
            )
        refuse_behind(stream, "the replay")
        self._refuse_freed()
        self._take_place(stream)
        for source in self._host_sources:
            depart(stream, stream.seq, source)
        if self._waits:
            self._replay = StalledWork(stream, self._calls)
            self._replay.go()
        else:
            with torch._C.DisableTorchFunction(), torch._C._AutoDispatchBelowADInplaceOrView():
                for call in self._calls:
                    call()
        live.replays += 1
        live.replayed_ops.update(self._ops)
        live.replayed_launches.update(self._launches)
        if os.environ.get("ASCEND_LAUNCH_BLOCKING") == "1":
            host_waits_for(stream_clock(stream))

    def _refuse_freed(self) -> None:
        """Refuse memory that was freed after the capture: the graph names it by its address."""
        for touch in self._touched.values():
            if touch.block.freed:
                use = "writes" if touch.write else "reads"
                raise CaptureError(
                    "AI-CAP-026",
                    acl_text("aclmdlRIExecuteAsync", 507011, "the model execution failed")
                    + f": the graph {use} bytes {touch.start} to {touch.stop} of an allocation of "
                    f"{touch.block.nbytes} bytes at {touch.block.base.data_ptr():#x}, last written "
                    f"by {touch.block.writer}, which was freed after the capture",
                    acl_error=507011,
                    rule="a graph keeps the addresses of what it uses and not the memory: whatever "
                    "is allocated outside of the capture has to live as long as the graph, and a "
                    "weak reference does not keep it",
                    fix="hold a reference to that tensor beside the graph, or allocate it inside "
                    "the capture, in the graph's pool",
                )

    def _take_place(self, stream: StreamState) -> None:
        """Enter the whole graph into the stream's order as one operation."""
        if not stream.device.single_stream:
            if self._pool is not None:
                self._pool.enter(stream, self._pool_memory)
            alive = [(o.block(), o) for o in self._outputs]
            written = [Touch(b, o.start, o.stop, True) for b, o in alive if b is not None]
            enqueue(stream, [*self._touched.values(), *written], "graph replay")
            return
        stream.seq = seq = stream.seq + 1
        for touch in self._touched.values():
            if touch.write:
                touch.block.write = seq
            else:
                touch.block.read = seq
        for output in self._outputs:
            block = output.block()
            if block is not None:
                block.write = seq
                block.writer = "graph replay"

    def reset(self) -> None:
        """Give up the recorded work and this graph's hold on the pool."""
        self._release()

    def _release(self) -> None:
        self._steps = None
        self._calls.clear()  # task groups of this graph look here
        self._touched = {}
        self._outputs = []
        if self._replay is not None:
            self._replay.abandon()
            self._replay = None
        self._pool_memory = {}
        self._host_sources = []
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.device.graph_streams -= self._occupied
            self._occupied = 0
            pool.detach()

    def __del__(self) -> None:
        self._release()

    def pool(self) -> tuple[int, int]:
        """The handle of this graph's pool, for other captures to share."""
        if self._pool is None or self._steps is None:
            _not_captured("pool")
        return self._pool.id

    def debug_dump(self, debug_path: str) -> None:
        """Write the recorded steps as JSON."""
        if self._steps is None:
            _not_captured("debug_dump")
        rows = [
            {"index": i, "name": s.name, "kind": s.kind, "stream": s.stream}
            for i, s in enumerate(self._steps)
        ]
        Path(debug_path).write_text(json.dumps({"steps": rows}, indent=1), encoding="utf-8")

    def enable_debug_mode(self) -> None:
        """Accepted for compatibility; `debug_dump` needs no preparation."""

    def update(self, cpu_update_input: list[dict[str, Any]]) -> None:
        """Not simulated.

        Raises:
            NotSimulatedError: AI-CAP-018.
        """
        raise NotSimulatedError(
            "AI-CAP-018",
            "NPUGraph.update is not simulated",
            rule="it names host arguments of the vendor's attention operators, which task groups "
            "update here",
            fix="bracket the operator with graph_task_group_begin and _end and update it with "
            "graph_task_update_begin and _end, or keep changing values in device tensors",
        )


def _find_pool(handle: tuple[int, int] | None, stream: StreamState) -> GraphPool:
    if handle is None:
        handle = graph_pool_handle()
    pool = _pools.get(handle)
    if pool is None or pool.device is not stream.device:
        raise CaptureError(
            "AI-CAP-005",
            f"{handle!r} is not a memory pool of npu:{stream.device.index}",
            fix="pass torch.npu.graph_pool_handle() or another graph's pool()",
        )
    return pool


def _not_captured(method: str) -> NoReturn:
    raise CaptureError(
        "AI-CAP-005",
        f"Called NPUGraph::{method} without a preceding successful capture.",
        fix="capture first: with torch.npu.graph(graph): ...",
    )


class graph:
    """`with torch.npu.graph(g):` captures the body on a side stream into `g`."""

    default_capture_stream: ClassVar[streams.Stream | None] = None

    def __init__(
        self,
        npu_graph: NPUGraph,
        pool: tuple[int, int] | None = None,
        stream: streams.Stream | None = None,
        auto_dispatch_capture: bool | str = False,
        capture_error_mode: str = "global",
    ) -> None:
        if isinstance(auto_dispatch_capture, str):
            raise CaptureError(
                "AI-CAP-016",
                f"the fourth argument of torch.npu.graph is auto_dispatch_capture, "
                f"not the error mode {auto_dispatch_capture!r}",
                rule="torch_npu would silently switch auto dispatch on and keep mode 'global'",
                fix=f"capture_error_mode={auto_dispatch_capture!r} by keyword",
            )
        if auto_dispatch_capture:
            raise NotSimulatedError(
                "AI-CAP-018",
                "auto_dispatch_capture=True is not simulated",
                rule="it opens a task group around each of the vendor's attention operators",
                fix="bracket what needs an update with graph_task_group_begin and _end",
            )
        cls = type(self)
        if stream is None and cls.default_capture_stream is None:
            cls.default_capture_stream = streams.Stream()
        self.npu_graph = npu_graph
        self.pool = pool
        self.capture_stream = stream or cls.default_capture_stream
        self.capture_error_mode = capture_error_mode
        self._context = streams.StreamContext(self.capture_stream)

    def __enter__(self) -> None:
        streams.synchronize()
        if os.environ.get("TORCH_NPUGRAPH_GC") == "1":
            gc.collect()
        self._context.__enter__()
        try:
            self.npu_graph.capture_begin(pool=self.pool, capture_error_mode=self.capture_error_mode)
        except BaseException:
            self._context.__exit__(None, None, None)
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self.npu_graph.capture_end()
            else:
                # torch_npu ends the capture here too and its second error hides the first.
                self.npu_graph._abort()
        finally:
            self._context.__exit__(kind, error, trace)
