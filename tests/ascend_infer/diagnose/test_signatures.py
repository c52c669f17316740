"""Every alternative of every recognised text, by an example; texts beside it that are others."""

from __future__ import annotations

import pytest

from ascend_infer.diagnose.signatures import SIGNATURES, recognise

EXAMPLES: dict[str, tuple[str, ...]] = {
    "streams-exhausted": (
        "Alloc sq cq fail, stream_id=1984",
        "New capture stream failed", "Create capture stream failed", "alloc capture stream failed",
        "Stream resources are insufficient.", "The stream resource is insufficient",
        "Insufficient_Stream_Resources(EL0009): x",
    ),
    "aclop-in-capture": ("Cannot run aclop operators during NPU graph capture. Current",),
    "generator-in-capture": (
        "Not support Generator while in capture mode", "Cannot call NPUGeneratorImpl::seed",
    ),
    "task-queue-2": ("Do not support TASK_QUEUE_ENABLE = 2 during NPU graph capture",),
    "launch-blocking": ("ACL graph is incompatible with ASCEND_LAUNCH_BLOCKING=1",),
    "default-stream": ("NPU graphs must be captured on a non-default stream.",),
    "external-stream": ("External NPU stream is not supported in NPUGraph::capture_begin",),
    "pinned-segments": ("ACLGraph is not supported when pin_memory_expandable_segments=True",),
    "graph-reused": ("This NPUGraph instance already owns a captured graph.",),
    "capture-mode-name": ("Unknown capture error mode. Expected `global`, got x",),
    "out-of-memory": ("NPU out of memory. Tried to allocate 2.00 GiB",),
    "function-not-found": ("Failed to find function aclmdlRICaptureBegin",),
    "library-not-found": ("libhccl.so: cannot open shared object file",
                          "libascendcl.so: cannot open shared", "libacl_tdt.so: cannot open shared",
                          "libge_runner.so: cannot open shared", "libgraph.so: cannot open shared",
                          "libascend_hal.so: cannot open shared object file",
                          "libstdc++.so.6: cannot open shared object file"),
    "undefined-symbol": ("/a/libtorch_npu.so: undefined symbol: aclrtX",),
    "kernel-does-not-compile": ("/a/main.cpp:48:9: error: use of undeclared identifier 'x'",
                                "k.cce:1:1: fatal error: 'a.h' file not found"),
    "device-in-use": ("dcmi model initialized failed, because the device is used. ret is -8020",
                      "dcmi module initialize failed. ret is -8005"),
    "two-accelerators": ("Two accelerators cannot be used at the same time in PyTorch",),
    "kernel-exception": ("there is an fftsplus aivector error exception, core id is 12",
                         "there is an aicore exception, core id is 0",
                         "there is an exception of aivec error, core id is 11"),
    "collective-timeout": ("Watchdog caught collective operation timeout: x",
                           "The wait execution of the Notify register times out.",
                           "Notify wait execute timeout, device_id=0",
                           "Task run failed, base information is streamID:[46]"),
    "replay-without-capture": ("Called NPUGraph::replay without a preceding successful capture.",),
    "profiler-in-capture": ("AllocTask:Unsupported task type",),
    "task-group-open": ("A task group is not closed before the end",),
    "empty-capture": ("No streams is bound to the capture model, model_id=3",),
    "process-ended": ("Segmentation fault", "Fatal Python error: Aborted", "Aborted (core dumped)",
                      "terminate called after throwing", "terminate called without an active",
                      "Killed", "run.sh: line 12: 4711 Killed   python x",
                      "exitcode: -9 (pid: 4711)", "Signal 9 (SIGKILL) received by PID 7",
                      "kernel: Out of memory: Killed process 7 (python)",
                      "Worker proc VllmWorker-3 died unexpectedly, shutting down",
                      "double free or corruption (out)"),
    "capture-wait": ("Capture wait event failed.", "add stream to capture model failed"),
    "capture-mode-refusal": ("EE9999: the current capture mode does not support it",
                             "MemcpySync:the current capture mode does not support x, mode=0",
                             "rtMemcpy: the current capture mode does not support it"),
    "inner-error": ("EZ9999: Inner Error!", "RuntimeError: EE9999: Inner Error! "),
    "reported-above": (
        "The Inner error is reported as above.", "See root cause above", "see root cause above",
        "WorkerProc failed to start", "WorkerProc initialization failed due to x",
        "Engine core initialization failed", "EngineCore died", "EngineDeadError: x",
        "ChildFailedError:", "ProcessExitedException: x", "ProcessRaisedException: x",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("key", "text"), [(key, text) for key, texts in EXAMPLES.items() for text in texts]
)
def test_a_text_is_recognised(key: str, text: str) -> None:
    for around in (text, f"RuntimeError: {text}") if "^" not in dict(patterns())[key] else (text,):
        found = recognise(around)
        assert found is not None and found.key == key


def patterns() -> list[tuple[str, str]]:
    return [(explanation.key, pattern.pattern) for pattern, explanation in SIGNATURES]


def test_every_signature_has_an_example() -> None:
    assert [key for key, _ in patterns()] == list(EXAMPLES)


@pytest.mark.parametrize(
    "text",
    [
        "EZ9999: Inner Error! with more behind it",
        "stream 7 is captured",
        "the process was Killed by its owner",
        "TASK_QUEUE_ENABLE = 2 is supported",
        "Capturing CUDA graphs (decode, FULL): 100%",
        "WorkerProc is ready",
        "RuntimeError: refused, the current capture mode does not support it",
        "a.py:3: error: it is only typed wrongly",
        "",
    ],
)
def test_other_texts_are_not(text: str) -> None:
    assert recognise(text) is None
