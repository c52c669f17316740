"""Texts of a log that say more than the code beside them; the first that matches wins."""

from __future__ import annotations

import re

from ascend_infer.diagnose.codes import Explanation, Role
from ascend_infer.diagnose.fixes import FIRST, KERNEL, MEMORY, PAIRED, STREAMS

_C, _F, _S = Role.CAUSE, Role.FOLLOWER, Role.SYMPTOM
_TORCH_NPU = "text of torch_npu's libraries"
_RUNTIME = "hicann/runtime, text of the source"
_VLLM = "text of vLLM"
_ROWS: tuple[tuple[str, str, str, str, Role, str], ...] = (
    ("streams-exhausted", r"Alloc sq cq fail|(?:New|Create|alloc) capture stream failed"
     r"|[Ss]tream[ _][Rr]esources?(?: (?:is|are) insufficient|\(EL0009\))",
     "the device has no stream left; this is neither disk nor memory", STREAMS, _C,
     "vllm-ascend #5213, #9564"),
    ("aclop-in-capture", r"Cannot run aclop operators during NPU graph capture",
     "an operator of the old (aclop) kind runs during capture",
     "set torch.npu.config.allow_internal_format = False, or a CANN that has the aclnn operator",
     _C, _TORCH_NPU),
    ("generator-in-capture", r"Not support Generator while in capture mode"
     r"|Cannot call NPUGeneratorImpl::",
     "the random generator's state is read or set during capture",
     "seed and draw outside the capture; padding needs no random numbers", _C, _TORCH_NPU),
    ("task-queue-2", r"Do not support TASK_QUEUE_ENABLE ?= ?\d",
     "the task queue's level 2 excludes capture", "export TASK_QUEUE_ENABLE=1", _C, _TORCH_NPU),
    ("launch-blocking", r"incompatible with ASCEND_LAUNCH_BLOCKING",
     "ASCEND_LAUNCH_BLOCKING=1 synchronises after every launch, which capture forbids",
     "unset ASCEND_LAUNCH_BLOCKING", _C, "vllm_ascend/platform.py"),
    ("default-stream", r"must be captured on a non-default stream",
     "the default stream cannot be captured", "capture on a stream of its own", _C, _TORCH_NPU),
    ("external-stream", r"External NPU stream is not supported",
     "the stream was not made by torch_npu", "use torch.npu.Stream", _C, _TORCH_NPU),
    ("pinned-segments", r"not supported when pin_memory_expandable_segments",
     "expandable segments of pinned memory exclude capture",
     "unset pin_memory_expandable_segments", _C, _TORCH_NPU),
    ("graph-reused", r"already owns a captured graph", "one NPUGraph was captured twice",
     "make an NPUGraph per capture", _C, _TORCH_NPU),
    ("capture-mode-name", r"Unknown capture error mode\. Expected",
     "the mode of a capture is none of the three; given by position it lands elsewhere",
     'pass capture_error_mode="global" by keyword', _C, _TORCH_NPU),
    ("out-of-memory", r"NPU out of memory\. Tried to allocate", "torch's allocator found no memory",
     MEMORY, _C, _TORCH_NPU),
    ("function-not-found", r"Failed to find function acl\w+",
     "CANN does not have a function that torch_npu calls", PAIRED, _C, _TORCH_NPU),
    ("library-not-found", r"\blib[\w+-]+\.so[\d.]*: cannot open shared",
     "a library is not on the loader's path",
     "source CANN's set_env.sh; libascend_hal.so is the driver's, in driver/lib64", _C,
     "torch_npu's libraries, DT_NEEDED; glibc"),
    ("undefined-symbol", r"\.so[\d.]*: undefined symbol: ",
     "a library was built for another release of the one that it loads", PAIRED, _C, "glibc"),
    ("kernel-does-not-compile", r"^\S+\.(?:c|cc|cpp|cce|cxx|h|hpp|mlir|ll):\d+:\d+: "
     r"(?:fatal )?error: ", "the compiler refuses a source file",
     "read the compiler's line; of generated code, look at the kernel's source", _C, "clang"),
    ("device-in-use", r"dcmi mod(?:el|ule) initiali[sz]ed? failed",
     "the driver does not give this process its devices",
     "see whether another container holds the device, or the driver's nodes are missing", _C,
     "npu-smi"),
    ("two-accelerators", r"Two accelerators cannot be used at the same time",
     "torch is a CUDA build, or another backend is loaded", "install the CPU build of torch", _C,
     "torch_npu/__init__.py"),
    ("kernel-exception", r"there is an? (?:[\w+ ]*exception|exception of [\w+ ]*), core id",
     "a kernel raised an exception on a core; the next lines name its kind", KERNEL, _C,
     _RUNTIME),
    ("collective-timeout", r"Watchdog caught collective operation timeout"
     r"|[Tt]he wait execution of the Notify register times out"
     r"|[Nn]otify wait execute timeout|Task run failed, (?:base|para) information",
     "a communication waited longer than its limit for another rank",
     "compare the ranks' first errors: the one that is silent has failed or is late", _C,
     "torch_npu ProcessGroupHCCL, HCCL"),
    ("replay-without-capture", r"without a preceding successful capture",
     "a graph is replayed whose capture failed", "look for the error of the capture", _F,
     _TORCH_NPU),
    ("profiler-in-capture", r"AllocTask:\s*Unsupported",
     "a task that capture does not support, such as the profiler's configuration",
     "start the profiler before the capture, or around replays only", _C, "vllm-ascend #7185"),
    ("task-group-open", r"A task group is not closed", "a task group was left open",
     "pair graph_task_group_begin and graph_task_group_end", _F, _RUNTIME),
    ("empty-capture", r"No streams is bound to the capture model",
     "the captured model has no stream", FIRST, _F, _RUNTIME),
    ("process-ended", r"Segmentation fault|^Fatal Python error|core dumped"
     r"|^terminate called (?:after|without)|^Killed$|: line \d+: +\d+ Killed "
     r"|\(SIG(?:KILL|SEGV|ABRT|BUS)\)|exitcode: -\d+ |Out of memory: Killed process"
     r"|orker proc\w* .*died unexpectedly|double free or corruption",
     "native code or the system ended a process",
     "run under `python -X faulthandler`; dmesg tells whether memory ran out", _F,
     "glibc, CPython, shells"),
    ("capture-wait", r"Capture wait event failed|add stream to capture model failed",
     "a stream could not join the capture", FIRST, _S, _RUNTIME),
    ("capture-mode-refusal", r"EE9999.*current capture mode"
     r"|^(?!\w*(?:Error|Exception):)\w+:.*current capture mode",
     "a copy is refused during capture; usually the consequence of another error",
     "look at the innermost Python frame of the traceback", _S, "vllm-ascend #11514"),
    ("inner-error", r"\bE[A-Z]9999: Inner Error!\s*$", "the head of an error's text",
     "read the lines below it", _S, _RUNTIME),
    ("reported-above", r"The Inner error is reported as above|[Ss]ee root cause above"
     r"|WorkerProc (?:initialization )?failed|Engine ?[Cc]ore (?:\w+ )?(?:failed|died|dead)"
     r"|EngineDeadError|ChildFailedError|ProcessExitedException|ProcessRaisedException",
     "the report of another process's or an earlier error", FIRST, _S, _VLLM),
)  # fmt: skip
SIGNATURES = tuple(
    (
        re.compile(pattern),
        Explanation(key=key, meaning=meaning, fix=fix, role=role, source=source),
    )
    for key, pattern, meaning, fix, role, source in _ROWS
)
#: One of these is in every text that a signature matches, and in the text of its pattern. A search
#: for words is much faster than one for patterns, and most lines have none.
WORDS = (
    *("Alloc sq cq", "capture stream failed", "insufficient", "EL0009", "run aclop", "Generator"),
    *("TASK_QUEUE", "BLOCKING", "non-default stream", "External NPU", "pin_memory", "owns a capt"),
    *("capture error mode", "NPU out of memory", "function acl", "open shared", "undefined symbol"),
    *("error: ", "dcmi mod", "accelerators", ", core id", "Watchdog", "Notify register"),
    *("otify wait execute", "Task run failed", "successful capture", "AllocTask:", "task group is"),
    *("bound to the capture", "egmentation", "atal Python", "core dumped", "terminate called"),
    *("Killed", "(SIG", "exitcode: -", "died unexpectedly", "double free", "Capture wait event"),
    *("add stream to", "current capture mode", "Inner Error", "Inner error", "root cause above"),
    *("WorkerProc", "Engine", "ChildFailed", "ProcessExited", "ProcessRaised"),
)
_PATTERNS_WITH = {
    word: [index for index, (pattern, _) in enumerate(SIGNATURES) if word in pattern.pattern]
    for word in WORDS
}


def recognise(text: str) -> Explanation | None:
    """The explanation of a text that the table knows."""
    words = [word for word in WORDS if word in text]
    if not words:
        return None
    candidates = sorted({index for word in words for index in _PATTERNS_WITH[word]})
    found = (SIGNATURES[index] for index in candidates)
    return next((row for pattern, row in found if pattern.search(text)), None)
