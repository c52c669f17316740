"""Texts of a log that say more than the code beside them; the first that matches wins."""

from __future__ import annotations

import re

from ascend_infer.diagnose.codes import Explanation, Role

_STREAMS = (
    "capture fewer or smaller sizes, or end other processes of the device (the limit is shared)"
)
_ROWS: tuple[tuple[str, str, str, str, Role], ...] = (
    ("streams-exhausted", r"Alloc sq cq fail|(?:New|Create|alloc) capture stream failed"
     r"|[Ss]tream resources? (?:is|are) insufficient",
     "the device has no stream left; this is neither disk nor memory", _STREAMS, Role.CAUSE),
    ("aclop-in-capture", r"Cannot run aclop operators during NPU graph capture",
     "an operator of the old (aclop) kind runs during capture",
     "set torch.npu.config.allow_internal_format = False, or a CANN that has the aclnn operator",
     Role.CAUSE),
    ("generator-in-capture", r"Not support Generator while in capture mode"
     r"|Cannot call NPUGeneratorImpl::",
     "the random generator's state is read or set during capture",
     "seed and draw outside the capture; padding needs no random numbers", Role.CAUSE),
    ("task-queue-2", r"Do not support TASK_QUEUE_ENABLE ?= ?2",
     "the task queue's level 2 excludes capture", "export TASK_QUEUE_ENABLE=1", Role.CAUSE),
    ("launch-blocking", r"incompatible with ASCEND_LAUNCH_BLOCKING",
     "ASCEND_LAUNCH_BLOCKING=1 synchronises after every launch, which capture forbids",
     "unset ASCEND_LAUNCH_BLOCKING", Role.CAUSE),
    ("default-stream", r"must be captured on a non-default stream",
     "the default stream cannot be captured", "capture on a stream of its own", Role.CAUSE),
    ("external-stream", r"External NPU stream is not supported",
     "the stream was not made by torch_npu", "use torch.npu.Stream", Role.CAUSE),
    ("pinned-segments", r"not supported when pin_memory_expandable_segments",
     "expandable segments of pinned memory exclude capture",
     "unset pin_memory_expandable_segments", Role.CAUSE),
    ("graph-reused", r"already owns a captured graph", "one NPUGraph was captured twice",
     "make an NPUGraph per capture", Role.CAUSE),
    ("replay-without-capture", r"without a preceding successful capture",
     "a graph is replayed whose capture failed", "look for the error of the capture",
     Role.FOLLOWER),
    ("profiler-in-capture", r"AllocTask:\s*Unsupported",
     "a task that capture does not support, such as the profiler's configuration",
     "start the profiler before the capture, or around replays only", Role.CAUSE),
    ("task-group-open", r"A task group is not closed", "a task group was left open",
     "pair graph_task_group_begin and graph_task_group_end", Role.FOLLOWER),
    ("empty-capture", r"No streams is bound to the capture model",
     "the captured model has no stream", "look for the first error before it", Role.FOLLOWER),
    ("capture-wait", r"Capture wait event failed|add stream to capture model failed",
     "a stream could not join the capture", "look for the first error before it", Role.SYMPTOM),
    ("capture-mode-refusal", r"EE9999.*current capture mode|rtMemcpy.*current capture mode",
     "a copy is refused during capture; usually the consequence of another error",
     "look at the innermost Python frame of the traceback", Role.SYMPTOM),
)  # fmt: skip
SIGNATURES = tuple(
    (re.compile(pattern), Explanation(key=key, meaning=meaning, fix=fix, role=role))
    for key, pattern, meaning, fix, role in _ROWS
)


def recognise(text: str) -> Explanation | None:
    """The explanation of a text that the table knows."""
    return next((found for pattern, found in SIGNATURES if pattern.search(text)), None)
