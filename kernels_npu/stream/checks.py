"""The two questions about TVM-FFI kernels: what the table answers, and what a kernel would see.

The *probe* asks the table on `torch.Tensor` directly. The *proof* calls a real TVM-FFI function,
which reads its environment stream as a kernel's launcher does. They differ when tvm-ffi has kept
another table in this thread, which no look at `torch.Tensor` can reveal.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from kernels_npu.errors import AscendInferError, EnvironmentProblem
from kernels_npu.stream.devices import each_stream, kind_of
from kernels_npu.stream.exchange_patch import take_error
from kernels_npu.stream.exchange_table import table_of

SKIP_VARIABLE = "TVM_FFI_SKIP_DLPACK_C_EXCHANGE_API"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One question. stream: which one was current. expected, answer: handles, 0 for none."""

    stream: str
    expected: int
    answer: int

    @property
    def right(self) -> bool:
        """Whether the answer was that stream."""
        return self.answer == self.expected

    def __str__(self) -> str:
        answer = f"{self.answer:#x}" if self.answer else "no stream"
        return f"{answer} while {self.stream} {self.expected:#x} was current"


@dataclass(frozen=True, kw_only=True)
class Check:
    """The outcome of a probe or a proof.

    asked: questions that were answered. problem: why it failed or was not made.
    """

    verdict: str
    asked: tuple[Asked, ...] = ()
    problem: AscendInferError | None = None

    @property
    def passed(self) -> bool:
        """Whether every question got the right answer."""
        return self.verdict == "passed"

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready fields."""
        return {
            "verdict": self.verdict,
            "asked": [vars(asked) for asked in self.asked],
            "problem": None if self.problem is None else self.problem.to_dict(),
        }


def not_run(problem: AscendInferError) -> Check:
    """A check that was left out, and why."""
    return Check(verdict="not run", problem=problem)


def failed(problem: AscendInferError, asked: tuple[Asked, ...] = ()) -> Check:
    """A check that did not pass, and why."""
    return Check(verdict="failed", asked=asked, problem=problem)


def probe(device: torch.device) -> Check:
    """Ask the table on `torch.Tensor` for the stream of `device`. Passes no tensor to tvm-ffi."""
    # A torch without a table of its own is given one by the import of tvm-ffi.
    # A broken one raises anything; the proof says so.
    with contextlib.suppress(Exception):
        importlib.import_module("tvm_ffi")
    try:
        table = table_of()
    except EnvironmentProblem as problem:
        return failed(problem)
    dlpack_type = kind_of(device).dlpack_type
    return _ask(device, partial(table.ask, dlpack_type, device.index), _wrong_table, _raised)


def prove(device: torch.device, types: Collection[type[torch.Tensor]]) -> Check:
    """Let a TVM-FFI function of this thread say on which stream a kernel would be launched.

    Asked for plain tensors and each of the types, since tvm-ffi keeps a table per type. From here
    on it keeps, in this thread, the tables that these have now.
    """
    try:
        read = environment_stream(device)
    except EnvironmentProblem as problem:
        return not_run(problem)
    others = [kind for kind in types if kind is not torch.Tensor]
    kinds: tuple[type[torch.Tensor], ...] = (torch.Tensor, *others)
    for kind in kinds:
        argument = torch.empty(1, device=device).as_subclass(kind)
        check = _ask(
            device,
            partial(read, argument),
            partial(_wrong_kernel, kind),
            partial(_failing_kernel, kind),
        )
        if not check.passed:
            break
    return check


def environment_stream(device: torch.device) -> Callable[[torch.Tensor], int]:
    """A TVM-FFI function of one tensor that returns the stream which a kernel would be given.

    Like mainline tilelang's launcher it asks for the stream of the current device.

    Raises:
        EnvironmentProblem: AI-STREAM-028 when tvm-ffi is not there or cannot be used.
    """
    try:
        import tvm_ffi

        get_stream = tvm_ffi.LIB.TVMFFIEnvGetStream
    except Exception as error:  # a library that does not load, or of another release
        raise EnvironmentProblem(
            "AI-STREAM-028",
            f"tvm-ffi cannot be used: {type(error).__name__}: {error}",
            rule="the proof calls a function through the same library that kernels go through",
            fix="pip install apache-tvm-ffi",
        ) from error
    get_stream.restype = ctypes.c_void_p
    get_stream.argtypes = [ctypes.c_int32, ctypes.c_int32]
    module, dlpack_type = torch.get_device_module(device), kind_of(device).dlpack_type

    def read(tensor: Any) -> int:
        return get_stream(dlpack_type, module.current_device()) or 0

    function: Callable[[torch.Tensor], int] = tvm_ffi.convert(read)
    return function


def _ask(
    device: torch.device,
    question: Callable[[], int],
    explain: Callable[[torch.device, Asked], AscendInferError],
    explain_error: Callable[[torch.device, Exception], AscendInferError],
) -> Check:
    asked: list[Asked] = []
    take_error()
    for stream in each_stream(device):
        try:
            answer = question()
        except Exception as error:  # from C, and any kind
            own = take_error()
            if own is None:
                return failed(explain_error(device, error), tuple(asked))
            if not isinstance(own, Exception):
                raise own from error  # Ctrl-C, which says nothing of the table
            return failed(_raised(device, own), tuple(asked))
        asked.append(Asked(stream=stream.name, expected=stream.handle, answer=answer))
    wrong = next((a for a in asked if not a.right), None)
    if wrong is not None:
        return failed(explain(device, wrong), tuple(asked))
    return Check(verdict="passed", asked=tuple(asked))


def _raised(device: torch.device, error: Exception) -> AscendInferError:
    problem = EnvironmentProblem(
        "AI-STREAM-027",
        f"asking the exchange table for the stream of {device} raised {_in_a_line(error)}",
        rule="a table that fails names no stream, and kernels must not be launched",
        fix="kernels_npu.stream.ensure(device) installs a table that works, unless torch_npu's "
        "own functions are what fails",
    )
    problem.__cause__ = error
    return problem


def _in_a_line(error: Exception) -> str:
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"


def _wrong_table(device: torch.device, wrong: Asked) -> AscendInferError:
    return EnvironmentProblem(
        "AI-STREAM-021",
        f"the exchange table of torch.Tensor names {wrong} on {device}",
        rule="torch_npu tells torch its streams from 2.13 on; before, the table has to be patched",
        fix="call kernels_npu.stream.ensure(device) before the first TVM-FFI kernel, "
        "or install torch and torch_npu 2.13 or later",
    )


def _wrong_kernel(kind: type[torch.Tensor], device: torch.device, wrong: Asked) -> AscendInferError:
    what = f"with a {kind.__name__} a TVM-FFI function is given {wrong} on {device}"
    if os.environ.get(SKIP_VARIABLE) == "1":
        return EnvironmentProblem(
            "AI-STREAM-023",
            f"{what}, and {SKIP_VARIABLE}=1",
            rule="with this variable tvm-ffi ignores the exchange table and knows only CUDA's "
            "streams",
            fix=f"unset {SKIP_VARIABLE} and start the process again",
        )
    return _kept_table(what)


def _failing_kernel(
    kind: type[torch.Tensor], device: torch.device, error: Exception
) -> AscendInferError:
    """Not from the table on `torch.Tensor`, which was asked before and answered."""
    problem = _kept_table(
        f"with a {kind.__name__} on {device} the call of a TVM-FFI function raises "
        f"{_in_a_line(error)}"
    )
    problem.__cause__ = error
    return problem


def _kept_table(what: str) -> EnvironmentProblem:
    return EnvironmentProblem(
        "AI-STREAM-022",
        f"{what} in thread {threading.current_thread().name!r}, "
        "although the table on torch.Tensor is right",
        rule="tvm-ffi keeps the table of the first tensor of a type that it meets in a thread, "
        "for ever",
        fix="call kernels_npu.stream.ensure(device) at the start of the thread, before any tensor "
        "is passed to a TVM-FFI function; a new thread works",
    )
