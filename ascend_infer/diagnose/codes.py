"""What error codes of CANN and torch_npu mean, and which of them can be a first cause."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass


class Role(enum.Enum):
    """How an error relates to the cause of a failure."""

    CAUSE = "cause"
    #: A cause only where nothing failed before it in the same log.
    FOLLOWER = "follower"
    #: A wrapper around, or a consequence of, another error.
    SYMPTOM = "symptom"
    #: An error that no table explains.
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """One kind of error: `key` is its code, or the name of a recognised text."""

    key: str
    meaning: str
    fix: str
    role: Role = Role.CAUSE


_STREAMS = (
    "capture fewer or smaller sizes, or end other processes of the device (the limit is shared)"
)
_UNCAPTURED = "move it out of the captured code; the innermost frame of the traceback names it"
_KERNEL = "check the operator's addresses, shapes and tiling; run it eagerly and alone first"
_ARGUMENT = "compare the arguments of the named call with its documentation"
_HARDWARE = "look at `npu-smi info` and the device log; reset or replace the device"
_FIRST = "look for the first error before it"

_C, _F, _S = Role.CAUSE, Role.FOLLOWER, Role.SYMPTOM
_ROWS: tuple[tuple[str, str, str, Role], ...] = (
    ("107000", "a runtime call got an invalid parameter", _ARGUMENT, _C),
    ("107001", "the device id is invalid", "check ASCEND_RT_VISIBLE_DEVICES and the index", _C),
    ("107002", "the thread has no device context", "call torch.npu.set_device in this thread", _C),
    ("107003", "the stream belongs to another context", "use a stream of the current device", _C),
    ("107015", "a callback failed", "look at the exception of the callback", _C),
    ("107017", "a handle is invalid", "keep the object alive while it is used", _C),
    ("107019", "a wait timed out", "look for the task that does not end on this stream", _C),
    ("107020", "a task timed out", "look for the task that does not end on this stream", _C),
    ("107022", "the device's tasks were aborted", _FIRST, _S),
    ("107023", "the stream's tasks were aborted", _FIRST, _S),
    ("107024", "an event is waited for in a capture that did not record it",
     "record the event inside the capture", _F),
    ("107025", "a side stream was not joined when the capture ended",
     "let the capture stream wait for an event of the side stream before the end", _F),
    ("107026", "the model is being captured", "end the capture first", _F),
    ("107027", "a stream under capture was synchronised, queried or captured twice "
     "(.item(), .cpu(), print)", _UNCAPTURED, _C),
    ("107028", "an event under capture was synchronised or queried", _UNCAPTURED, _C),
    ("107029", "the stream is not being captured", _FIRST, _F),
    ("107030", "an operation that capture forbids, mostly a synchronous copy", _UNCAPTURED, _C),
    ("107031", "the default stream cannot be captured", "capture on a stream of its own", _C),
    ("107032", "a capture begins while another is active", "end the other capture first", _F),
    ("107033", "a task group was left open", "pair graph_task_group_begin and _end", _F),
    ("107034", "a task group was interrupted", _FIRST, _F),
    ("107036", "the capture ends on another stream", "end it on the stream it began on", _F),
    ("107037", "the model is running", "wait for the replay before changing the graph", _C),
    ("107038", "the capture ends in another thread", "begin and end it in one thread", _F),
    ("107040", "updating a captured task failed", "look at the operator that is updated", _C),
    ("107041", "an asynchronous copy became synchronous during capture",
     "pin the host memory of the copy", _C),
    ("107045", "a sub graph is still being captured", "end the inner capture first", _F),
    ("207000", "the chip or the driver does not support the feature",
     "use eager mode, or a newer driver and CANN", _C),
    ("207001", "memory ran out", "reduce the KV cache or the batch", _C),
    ("207004", "there is no device", "run `npu-smi info`; check the container's devices", _C),
    ("207005", "a resource could not be allocated; mostly streams, not disk or memory", _STREAMS,
     _C),
    ("207007", "events ran out", "reuse or destroy events", _C),
    ("207008", "streams ran out", _STREAMS, _C),
    ("207009", "notifies ran out", "capture fewer graphs with communication", _C),
    ("207010", "models ran out", "capture fewer graphs", _C),
    ("207018", "device memory ran out", "reduce the KV cache or the batch", _C),
    ("207019", "the captured operator cannot be updated", "choose an operator with update", _C),
    ("507000", "an internal error of the runtime", _FIRST, _S),
    ("507002", "a stream's task queue is full", "synchronise now and then outside capture", _C),
    ("507010", "the device lost its heartbeat", _HARDWARE, _C),
    ("507011", "the execution of a graph failed", "look for the kernel error before it; keep every "
     "tensor of the graph alive and replay only sizes that fit", _S),
    ("507014", "a cube-core kernel timed out", "look for a flag that is never set", _C),
    ("507015", "a kernel raised an exception: bad address, overflow or instruction", _KERNEL, _C),
    ("507016", "a kernel trapped", _KERNEL, _C),
    ("507018", "an AI CPU operator raised an exception", _KERNEL, _C),
    ("507034", "a vector-core kernel timed out", "look for a flag that is never set", _C),
    ("507035", "a vector-core kernel raised an exception", _KERNEL, _C),
    ("507036", "a vector-core kernel trapped", _KERNEL, _C),
    ("507042", "a kernel read out of range", _KERNEL, _C),
    ("507043", "a kernel wrote out of range", _KERNEL, _C),
    ("507044", "a vector-core kernel read out of range", _KERNEL, _C),
    ("507045", "a vector-core kernel wrote out of range", _KERNEL, _C),
    ("507046", "synchronising a stream timed out", "look for the task that does not end", _S),
    ("507048", "a mixed kernel timed out", "look for a flag that is never set", _C),
    ("507049", "a mixed kernel raised an exception", _KERNEL, _C),
    ("507050", "a mixed kernel trapped", _KERNEL, _C),
    ("507053", "a memory or link error of the device", _HARDWARE, _C),
    ("507054", "a memory or link error of the device", _HARDWARE, _C),
    ("507055", "a memory or link error of the device", _HARDWARE, _C),
    ("507056", "a memory or link error of the device", _HARDWARE, _C),
    ("507057", "a memory or link error of the device", _HARDWARE, _C),
    ("507899", "the driver failed", "look at the driver's own error before it", _S),
    ("507903", "the capture was invalidated by an earlier failure", _FIRST, _S),
    ("EE2002", "an environment variable has a wrong value", "correct the named variable", _C),
    ("EE9999", "an inner error of the runtime", _FIRST, _S),
    ("EL0003", "the driver got a bad argument", _ARGUMENT, _C),
    ("EL0004", "the driver ran out of memory", "reduce the KV cache or the batch", _C),
    ("EL0005", "the device is busy", "end other processes of the device", _C),
    ("EL0008", "events ran out", "reuse or destroy events", _C),
    ("EL0009", "streams ran out", _STREAMS, _C),
    ("EL0010", "notifies ran out", "capture fewer graphs with communication", _C),
    ("EL0011", "models ran out", "capture fewer graphs", _C),
    ("EL0012", "a queue is full", "synchronise now and then outside capture", _C),
    ("EZ3002", "the operator is not supported", "install the operator package of the chip", _C),
    ("EZ3003", "the operator is not supported", "install the operator package of the chip", _C),
    ("EZ9903", "an operator's runtime call failed", _FIRST, _S),
    ("EZ9999", "an inner error of an operator", _FIRST, _S),
)  # fmt: skip
CODES = {
    key: Explanation(key=key, meaning=meaning, fix=fix, role=role)
    for key, meaning, fix, role in _ROWS
}
#: Prefix of a code that has no row of its own -> the component that reports it.
_FAMILIES: tuple[tuple[str, str, str, Role], ...] = (
    ("EE", "a runtime argument or resource", _ARGUMENT, _C),
    ("EL", "the driver", _ARGUMENT, _C),
    ("EZ", "shape, attribute or dtype of an operator", "correct the operator's arguments", _C),
    ("EH", "misuse of the ACL API", _ARGUMENT, _C),
    ("EI", "communication (HCCL)", "compare the ranks' first errors and the network", _C),
    ("EJ", "communication (HCCP)", "look at the network devices", _C),
    ("EK", "profiling or dump", "configure it before the capture", _C),
    ("EP", "profiling or dump", "configure it before the capture", _C),
    ("ERR", "torch_npu's wrapper of another error", _FIRST, _S),
    ("E", "compilation of an operator or another component", "read the text of the error", _C),
)  # fmt: skip


def explain(code: str) -> Explanation:
    """The code's row, its family's, or an explanation that says that it is unknown."""
    row = CODES.get(code)
    if row is not None:
        return row
    for prefix, meaning, fix, role in sorted(_FAMILIES, key=lambda row: -len(row[0])):
        if code.startswith(prefix) and re.match(r"\d", code[len(prefix) :]):
            return Explanation(key=code, meaning=meaning, fix=fix, role=role)
    return Explanation(
        key=code, meaning="not in the table", fix="read the line itself", role=Role.UNKNOWN
    )


def families() -> tuple[tuple[str, str, str, Role], ...]:
    """The families of codes, for the documentation."""
    return _FAMILIES
