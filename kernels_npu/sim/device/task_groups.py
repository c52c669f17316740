"""Task groups: recorded work whose arguments are given anew between replays.

`graph_task_group_begin/end` bracket work inside a capture and give a handle. Outside of it the same
operations, launched between `graph_task_update_begin` and `_end`, are not executed: they take the
place of the recorded ones, argument by argument. Their number and kinds must be the same, and they
must write the same memory, because the rest of the graph reads it there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from kernels_npu.sim.device.capture import CaptureSession, Step
from kernels_npu.sim.device.counters import live
from kernels_npu.sim.device.errors import CaptureError, acl_text
from kernels_npu.sim.device.external_events import managed_stream
from kernels_npu.sim.device.memory import Block, block_of, empty
from kernels_npu.sim.device.ordering import Touch, enqueue
from kernels_npu.sim.device.pool import PoolSlot
from kernels_npu.sim.device.stalls import Marker, StalledWork
from kernels_npu.sim.device.state import StreamState, process
from kernels_npu.sim.device.streams import Stream

BEGIN, END = "aclmdlRICaptureTaskGrpBegin", "aclmdlRICaptureTaskGrpEnd"
UPDATE_BEGIN, UPDATE_END = "aclmdlRICaptureTaskUpdateBegin", "aclmdlRICaptureTaskUpdateEnd"


class _NPUTaskGroupHandle(Marker):
    """Recorded steps `[start, stop)` of one graph; a replay reads them, an update writes them."""

    def __init__(self, session: CaptureSession) -> None:
        self.session = session
        self.start = len(session.steps) + 1
        self.stop = -1
        # A byte that stands for the tasks themselves in the order of streams.
        self._tasks = empty((1,), torch.uint8, session.stream.device.index)

    def touch(self, *, write: bool) -> Touch:
        block: Block = block_of(self._tasks)
        return Touch(block, 0, 1, write)

    def reach(self, stream: StreamState, work: StalledWork) -> bool:
        if not stream.device.single_stream:
            enqueue(stream, [self.touch(write=False)], "replay of a task group")
        return True

    @property
    def steps(self) -> Sequence[Step]:
        return self.session.steps[self.start : self.stop]

    def replace(self, steps: Sequence[Step], touched: Sequence[Touch]) -> None:
        """Put `steps` in the place of the recorded ones, for every later replay."""
        session = self.session
        session.steps[self.start : self.stop] = steps
        session.calls[self.start : self.stop] = [step.run for step in steps]
        for touch in touched:
            owner = touch.block.owner
            if not (isinstance(owner, PoolSlot) and owner.pool is session.pool):
                session.touch(touch)


class UpdateSession(CaptureSession):
    """Between `graph_task_update_begin` and `_end`: work of the stream is noted, not executed."""

    def __init__(self, stream: StreamState, handle: _NPUTaskGroupHandle) -> None:
        super().__init__(stream, handle.session.pool, "relaxed")
        self.handle = handle
        self.reached: list[Touch] = []

    def record(
        self,
        stream: StreamState,
        run: Callable[[], Any],
        name: str,
        touched: Sequence[Touch],
        *,
        kind: str = "op",
    ) -> None:
        self.check()
        self.reached += touched
        self.steps.append(Step.of(run, name, kind, stream, touched))


def graph_task_group_begin(stream: Stream) -> None:
    """Start a group of tasks on a stream that is being captured.

    Raises:
        CaptureError: AI-CAP-022 outside a capture or inside another group.
    """
    session = _capturing(stream, BEGIN)
    if session.group is not None:
        raise session.fail(
            _wrong_state(BEGIN, "a task group is open already", "end it before the next one begins")
        )
    session.group = handle = _NPUTaskGroupHandle(session)
    session.mark(managed_stream(stream, BEGIN), handle, "task group")


def graph_task_group_end(stream: Stream) -> _NPUTaskGroupHandle:
    """End the group; the handle is what an update names.

    Raises:
        CaptureError: AI-CAP-022 without a group that is open.
    """
    session = _capturing(stream, END)
    handle = session.group
    if handle is None:
        raise session.fail(
            _wrong_state(END, "no task group is open", "call graph_task_group_begin first")
        )
    session.group = None
    handle.stop = len(session.steps)
    live.task_groups += 1
    return handle


def graph_task_update_begin(stream: Stream, handle: _NPUTaskGroupHandle) -> None:
    """Start giving the tasks of `handle` new arguments; `stream` is not being captured.

    Raises:
        CaptureError: AI-CAP-022 on a stream that is captured or updating already, or for a group
            whose graph is not finished or was reset.
    """
    state = managed_stream(stream, UPDATE_BEGIN)
    if state.session is not None:
        busy = "captured" if state.session is process.session else "updating tasks already"
        raise _wrong_state(
            UPDATE_BEGIN, f"{state.describe()} is {busy}", "update on a stream of its own"
        )
    if not handle.session.calls:
        raise _wrong_state(
            UPDATE_BEGIN,
            "the task group belongs to no finished graph",
            "update after the capture has ended and before the graph is reset",
        )
    state.session = UpdateSession(state, handle)


def graph_task_update_end(stream: Stream) -> None:
    """The launches since `graph_task_update_begin` take the place of the recorded ones.

    Raises:
        CaptureError: AI-CAP-022 without a begin, AI-CAP-023 when they are other operations,
            AI-CAP-024 when they write other memory.
        StreamOrderError: AI-STREAM-001 when a replay may still be executing the tasks.
    """
    state = managed_stream(stream, UPDATE_END)
    session = state.session
    if not isinstance(session, UpdateSession):
        raise _wrong_state(
            UPDATE_END, "no update has begun", "call graph_task_update_begin on this stream first"
        )
    state.session = None
    _require_same_tasks(session)
    _require_same_memory(session)
    if not state.device.single_stream:
        enqueue(state, [session.handle.touch(write=True)], "task update")
    session.handle.replace(session.steps, session.reached)
    live.task_updates += 1


def _capturing(stream: Stream, call: str) -> CaptureSession:
    state = managed_stream(stream, call)
    if state.session is None or state.session is not process.session:
        raise _wrong_state(
            call, f"{state.describe()} is not being captured", "open groups inside torch.npu.graph"
        )
    return state.session


def _wrong_state(call: str, what: str, fix: str) -> CaptureError:
    return CaptureError(
        "AI-CAP-022",
        acl_text(call, 107033, "task group status") + f": {what}",
        acl_error=107033,
        rule="a group begins and ends inside one capture, an update on a stream outside of it",
        fix=fix,
    )


def _require_same_tasks(session: UpdateSession) -> None:
    old = [(step.name, step.kind) for step in session.handle.steps]
    new = [(step.name, step.kind) for step in session.steps]
    if old == new and not any(kind == "copy" for _, kind in new):
        return
    raise CaptureError(
        "AI-CAP-023",
        acl_text(UPDATE_END, 207019, "the operation cannot be updated")
        + f": captured {_names(old)}, updated with {_names(new)}",
        acl_error=207019,
        rule="an update launches the same operations in the same order on the stream of the "
        "update, and copies between host and device cannot be updated",
        fix="launch exactly what stands between graph_task_group_begin and _end, "
        "inside torch.npu.stream(update_stream)",
    )


def _names(tasks: Sequence[tuple[str, str]]) -> str:
    return ", ".join(name for name, _ in tasks) or "nothing"


def _require_same_memory(session: UpdateSession) -> None:
    for old, new in zip(session.handle.steps, session.steps):
        if old.writes != new.writes:
            raise CaptureError(
                "AI-CAP-024",
                f"the update of {new.name} writes other memory than the captured launch",
                rule="the rest of the graph reads the results where the capture put them; a "
                "result that is allocated by the update is lost",
                fix="pass the captured output explicitly (out=, or a kernel that takes its output)",
            )
