"""When a capture may begin and end, with torch_npu's texts and the CANN runtime's numbers."""

from __future__ import annotations

import os
import threading

from kernels_npu.sim.device.capture import MODES, CaptureSession
from kernels_npu.sim.device.errors import CaptureError, acl_text
from kernels_npu.sim.device.state import STREAMS_PER_DEVICE, StreamState, current, process


def check_begin(captured: bool, stream: StreamState, mode: str) -> None:
    """Refuse a capture that ACLGraph would refuse; `captured`: the graph already holds one."""
    if mode not in MODES:
        raise CaptureError(
            "AI-CAP-010",
            "Unknown capture error mode. "
            f"Expected `global`, `thread_local`, or `relaxed`, got {mode}",
            fix="pass capture_error_mode='global' by keyword",
        )
    if os.environ.get("TASK_QUEUE_ENABLE") == "2":
        raise CaptureError(
            "AI-CAP-009",
            "Do not support TASK_QUEUE_ENABLE = 2 during NPU graph capture, "
            "please export TASK_QUEUE_ENABLE=1/0.",
            fix="export TASK_QUEUE_ENABLE=1",
        )
    if os.environ.get("ASCEND_LAUNCH_BLOCKING") == "1":
        raise CaptureError(
            "AI-CAP-019",
            acl_text("aclrtSynchronizeStreamWithTimeout", 107027, "stream is captured"),
            acl_error=107027,
            rule="ASCEND_LAUNCH_BLOCKING=1 synchronises after each launch, which capture forbids",
            fix="unset ASCEND_LAUNCH_BLOCKING",
        )
    if captured:
        raise CaptureError(
            "AI-CAP-004",
            "This NPUGraph instance already owns a captured graph. "
            "To capture a new graph, create a new instance.",
            fix="graph = torch.npu.NPUGraph()",
        )
    if stream is stream.device.default_stream:
        raise CaptureError(
            "AI-CAP-003",
            "NPU graphs must be captured on a non-default stream. "
            "(However, after capture, it's ok to replay them on the default stream.)",
            acl_error=107031,
            fix="use torch.npu.graph, which brings its own stream, or torch.npu.stream(Stream())",
        )
    if stream.external:
        raise CaptureError(
            "AI-CAP-017",
            "External NPU stream is not supported in NPUGraph::capture_begin. "
            "This path requires a torch_npu-managed stream.",
            fix="capture on a torch.npu.Stream",
        )
    if process.session is not None:
        raise CaptureError(
            "AI-CAP-015",
            acl_text("aclmdlRICaptureBegin", 107032, "capture begin conflict"),
            acl_error=107032,
            rule="one capture at a time",
            fix="end the running capture first",
        )
    if stream.device.free_streams < 1:
        raise CaptureError(
            "AI-CAP-021",
            acl_text("aclmdlRICaptureBegin", 207008, "stream resources are insufficient"),
            acl_error=207008,
            rule=f"a device has {STREAMS_PER_DEVICE} streams over all processes; each graph "
            "occupies one, and one for every side stream in it",
            fix="capture fewer sizes, or reset graphs that are no longer replayed",
        )


def check_end(session: CaptureSession) -> None:
    """Refuse to end a capture elsewhere than it began, or with a side stream left open."""
    if session.thread != threading.get_ident():
        raise CaptureError(
            "AI-CAP-020",
            acl_text("aclmdlRICaptureEnd", 107038, "end on another thread"),
            acl_error=107038,
            rule="a capture ends on the thread that began it",
            fix="call capture_begin and capture_end on the same thread",
        )
    if current.streams[session.stream.device.index] is not session.stream:
        raise CaptureError(
            "AI-CAP-006",
            "Capture must end on the same stream it began on.",
            acl_error=107036,
            fix="leave inner torch.npu.stream contexts before capture_end",
        )
    if session.group is not None and session.error is None:
        raise CaptureError(
            "AI-CAP-022",
            acl_text("aclmdlRICaptureEnd", 107033, "task group status")
            + ": a task group is still open",
            acl_error=107033,
            rule="graph_task_group_end comes before the end of the capture",
            fix="call torch.npu.graph_task_group_end(stream) in the capture",
        )
    open_streams = session.unjoined()
    if open_streams and session.error is None:
        names = ", ".join(s.describe() for s in open_streams)
        raise CaptureError(
            "AI-CAP-007",
            acl_text("aclmdlRICaptureEnd", 107025, "unjoined stream") + f": {names}",
            acl_error=107025,
            rule="every side stream of a capture must be joined back into the capturing stream",
            fix="capture_stream.wait_stream(side_stream) before the end of the capture",
        )
