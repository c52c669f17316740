"""What is tried in a process of its own: `python -m tests.kernels_npu.stream.programs NAME`.

tvm-ffi keeps tables for the life of a thread and the patch is one per process, so that each of
these needs a fresh one. Each returns what the test looks at, printed as JSON.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from kernels_npu import stream
from kernels_npu.errors import AscendInferError
from kernels_npu.sim import device
from kernels_npu.stream.checks import environment_stream
from kernels_npu.stream.exchange_table import ATTRIBUTE
from tests.kernels_npu.stream import tables

device.enable(2)
NPU = torch.device("npu", 0)


def code_of(action: Callable[[], Any]) -> str | None:
    """The code that `action` raises; None when it succeeds."""
    try:
        action()
    except AscendInferError as error:
        return error.code
    return None


def in_a_thread(action: Callable[[], Any]) -> Any:
    """What `action` returns in a thread that has met no tensor."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(action()))
    thread.start()
    thread.join()
    return results[0]


def verdicts(report: stream.StreamReport) -> dict[str, Any]:
    """The parts of a report that differ between the programs."""
    assert json.loads(json.dumps(report.to_dict()))["passed"] == report.passed
    return {
        "passed": report.passed,
        "patched": report.patched,
        "probe": report.probe.verdict,
        "proof": report.proof.verdict,
        "codes": [problem.code for problem in report.problems],
        "unpatched": None if report.unpatched is None else report.unpatched.verdict,
    }


def clean() -> dict[str, Any]:
    """Torch's own table, which fails for the simulated NPU; then the patch."""
    own = getattr(torch.Tensor, ATTRIBUTE)
    found = verdicts(stream.examine(NPU))
    untouched = getattr(torch.Tensor, ATTRIBUTE) is own
    patched = verdicts(stream.ensure(NPU))
    again = verdicts(stream.ensure(NPU))
    second = code_of(stream.install)
    read = environment_stream(NPU)
    x, weight = torch.randn(5, 3).to(NPU), torch.nn.Parameter(torch.randn(3).to(NPU))
    side, graph = torch.npu.Stream(), torch.npu.NPUGraph()
    with torch.npu.stream(side):
        followed = stream.call(read, x) == stream.call(read, weight) == side.npu_stream
    with torch.npu.graph(graph, stream=side):
        captured = torch.npu.is_current_stream_capturing() and read(x) == side.npu_stream
    with torch.npu.graph(torch.npu.NPUGraph()):
        x.mul_(2)  # this thread is ensured already, another one would be too late
        captured = captured and stream.call(read, x) == true_stream()
        late = code_of(lambda: stream.examine(NPU))
    thread = in_a_thread(lambda: stream.call(read, x) == true_stream())
    stream.undo()
    return {
        "found": found,
        "untouched": untouched,
        "patched": patched,
        "again": again,
        "second": second,
        "followed": followed,
        "captured": captured,
        "in_capture": late,
        "thread": thread,
        "undone": getattr(torch.Tensor, ATTRIBUTE) is own and not stream.is_installed(),
        "after_undo": code_of(lambda: stream.examine(NPU).probe.passed or _raise(NPU)),
        # This thread has kept the patched copy: it must answer as torch's own does, that is, fail.
        "kept_copy": _kind_of_error(lambda: read(x)),
        "reinstalled": verdicts(stream.ensure(NPU)),
    }


def _raise(npu: torch.device) -> None:
    raise stream.examine(npu).problems[0]


def _kind_of_error(action: Callable[[], Any]) -> str | None:
    try:
        action()
    except Exception as error:  # noqa: BLE001 - its kind is the answer
        return type(error).__name__
    return None


def true_stream() -> int:
    return int(torch.npu.current_stream().npu_stream)


def right_table() -> dict[str, Any]:
    """A table that answers like torch 2.13 with torch_npu 2.13 is left alone."""
    capsule = tables.put(tables.true_stream)
    report = stream.ensure(NPU)
    return {**verdicts(report), "kept": getattr(torch.Tensor, ATTRIBUTE) is capsule}


def old_torch_npu() -> dict[str, Any]:
    """A table that names no stream, as before torch_npu 2.13: found, patched, proved."""
    tables.put(tables.no_stream)
    return {"found": verdicts(stream.examine(NPU)), "ensured": verdicts(stream.ensure(NPU))}


def constant_table() -> dict[str, Any]:
    """A table that was right once: it names the stream that was current at the start."""
    handle = true_stream()
    tables.put(lambda index: handle)
    return verdicts(stream.examine(NPU))


def late_installation() -> dict[str, Any]:
    """A tensor went through tvm-ffi before the patch: this thread keeps the old table."""
    tables.put(tables.no_stream)
    read = environment_stream(NPU)
    x = torch.randn(7).to(NPU)
    before = read(x)
    report = stream.examine(NPU, patch=True)
    return {
        **verdicts(report),
        "before": before,
        "raised": code_of(lambda: stream.ensure(NPU)),
        "still_wrong": read(x) != true_stream(),
        "fresh_thread": in_a_thread(lambda: verdicts(stream.ensure(NPU))),
        "call": code_of(lambda: stream.call(read, x)),
    }


def late_for_a_table_that_raises() -> dict[str, Any]:
    """The same with torch's own table of 2.13, which fails for a device that has no answer yet."""
    read, x = environment_stream(NPU), torch.randn(7).to(NPU)
    before = _kind_of_error(lambda: read(x))
    report = stream.examine(NPU, patch=True)
    return {
        **verdicts(report),
        "before": before,
        "what": str(report.problems[0]),
        "call": code_of(lambda: stream.call(read, x)),
        "fresh_thread": in_a_thread(lambda: stream.call(read, x) == true_stream()),
    }


def late_for_weights() -> dict[str, Any]:
    """Only a parameter went through tvm-ffi before the patch: activations are right, it is not."""
    tables.put(tables.no_stream)
    read = environment_stream(NPU)
    weight = torch.nn.Parameter(torch.randn(7).to(NPU))
    read(weight)
    return verdicts(stream.examine(NPU, patch=True))


class Marked(torch.Tensor):
    """A type that tvm-ffi keeps a table for of its own."""


def late_for_a_subclass() -> dict[str, Any]:
    """Only a subclass went through tvm-ffi before the patch: it alone must not be launched with."""
    tables.put(tables.no_stream)
    read, x = environment_stream(NPU), torch.randn(7).to(NPU)
    marked = x.as_subclass(Marked)
    before = read(marked)
    ensured = verdicts(stream.ensure(NPU))
    return {
        "before": before,
        "ensured": ensured,
        "call": code_of(lambda: stream.call(read, x, marked)),
        "others": stream.call(read, x) == true_stream(),
        "fresh_thread": in_a_thread(lambda: stream.call(read, marked) == true_stream()),
    }


def threads_together() -> dict[str, Any]:
    """Several threads ensure at once what none of them has ensured yet."""
    sys.setswitchinterval(1e-6)
    found: set[str | None] = set()
    for _ in range(20):
        start = threading.Barrier(4)

        def at_once(start: threading.Barrier = start) -> None:
            start.wait()
            found.add(code_of(lambda: stream.ensure(NPU)))

        threads = [threading.Thread(target=at_once) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        stream.undo()
    return {"codes": sorted(map(str, found))}


def interrupted() -> dict[str, Any]:
    """Ctrl-C while the current stream is read, by the probe and then by a launch."""
    import torch_npu

    class Slow:
        @staticmethod
        def _npu_getCurrentRawStream(index: int) -> int:
            raise KeyboardInterrupt

    def kind(action: Callable[[], Any]) -> str:
        try:
            return str(action())
        except BaseException as error:  # noqa: BLE001 - its kind is the answer
            return type(error).__name__

    torch_npu._C = Slow
    examined = kind(lambda: stream.examine(NPU, patch=True))
    del torch_npu._C
    read, x = environment_stream(NPU), torch.randn(7).to(NPU)
    afterwards = verdicts(stream.ensure(NPU))
    torch_npu._C = Slow
    return {
        "examined": examined,
        "afterwards": afterwards,
        "call": kind(lambda: stream.call(read, x)),
    }


def raising_callback() -> dict[str, Any]:
    """Reading torch_npu's current stream fails, first at once and then after the proof."""
    import torch_npu

    class Broken:
        @staticmethod
        def _npu_getCurrentRawStream(index: int) -> int:
            raise OSError("107002 no context")

    torch_npu._C = Broken
    at_once = verdicts(stream.examine(NPU, patch=True))
    del torch_npu._C
    read, x = environment_stream(NPU), torch.randn(7).to(NPU)
    right = stream.call(read, x) == true_stream()
    torch_npu._C = Broken
    return {
        "at_once": at_once,
        "right": right,
        "bare_call": _kind_of_error(lambda: read(x)),
        "call": _kind_of_error(lambda: stream.call(read, x)),
    }


def skipped_table() -> dict[str, Any]:
    """The variable that makes tvm-ffi ignore the table."""
    os.environ["TVM_FFI_SKIP_DLPACK_C_EXCHANGE_API"] = "1"
    return verdicts(stream.examine(NPU, patch=True))


def replaced_table() -> dict[str, Any]:
    """Another library puts its own table over the patched one."""
    stream.ensure(NPU)
    theirs = tables.put(tables.true_stream)
    return {
        **verdicts(stream.examine(NPU)),
        "undo": code_of(stream.undo),
        "install": code_of(stream.install),
        "theirs_stays": getattr(torch.Tensor, ATTRIBUTE) is theirs,
    }


def without_tvm_ffi() -> dict[str, Any]:
    """The table can be asked without tvm-ffi, the proof cannot be made."""
    sys.modules["tvm_ffi"] = None  # type: ignore[assignment]
    tables.put(tables.true_stream)
    return verdicts(stream.examine(NPU))


def broken_tvm_ffi() -> dict[str, Any]:
    """Half an installation: the import finds no library."""

    class Finder:
        @staticmethod
        def find_spec(name: str, *_: Any) -> None:
            if name == "tvm_ffi":
                raise RuntimeError("Cannot find libtvm_ffi")

    sys.meta_path.insert(0, Finder)  # type: ignore[arg-type]
    found = verdicts(stream.examine(NPU))
    tables.put(tables.true_stream)
    return {"found": found, "right_table": verdicts(stream.examine(NPU))}


def wrong_device() -> dict[str, Any]:
    """The tensors are on npu:1 while npu:0 is current."""
    import tvm_ffi

    stream.ensure(NPU)
    second = torch.device("npu", 1)
    read, x = environment_stream(second), torch.randn(7).to(second)
    mixed = torch.randn(2).to(NPU)
    return {
        "bare_call": read(x),
        "call": stream.call(read, x) == torch.npu.current_stream(1).npu_stream,
        "current": torch.npu.current_device(),
        "report": verdicts(stream.examine(second)),
        "nested": stream.call(tvm_ffi.convert(lambda given: read(given[0])), [x, x])
        == torch.npu.current_stream(1).npu_stream,
        "mixed": code_of(lambda: stream.call(read, x, mixed)),
        "mixed_nested": code_of(lambda: stream.call(read, x, [{"a": mixed}])),
        "meta": code_of(lambda: stream.call(read, torch.empty(3, device="meta"))),
        "none": code_of(lambda: stream.call(read, torch.randn(3))),
    }


def many_launches() -> dict[str, Any]:
    """What 10,000 launches leave behind, once everything is warm.

    And the same of a launcher that keeps its tensors, which must be seen.
    """
    read, x = environment_stream(NPU), torch.randn(7, 5).to(NPU)
    kept: list[torch.Tensor] = []

    def keeping(tensor: torch.Tensor) -> int:
        kept.append(tensor.view(35))
        return stream.call(read, tensor)

    def count(launch: Callable[[torch.Tensor], int]) -> dict[str, int]:
        for _ in range(10_000):
            launch(x)
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        gc.collect()
        capsule = getattr(torch.Tensor, ATTRIBUTE)
        return {
            "references": sum(map(sys.getrefcount, (x, NPU, read, capsule, torch.Tensor))),
            "objects": len(gc.get_objects()),
            "kib": pages * resource.getpagesize() // 1024,
        }

    def growth(launch: Callable[[torch.Tensor], int]) -> dict[str, int]:
        for _ in range(3):  # counting itself enlarges the process at first
            before = count(launch)
        after = count(launch)
        return {key: after[key] - before[key] for key in before}

    return {"call": growth(partial(stream.call, read)), "keeping": growth(keeping)}


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]]()))
