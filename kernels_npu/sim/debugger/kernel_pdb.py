"""Python's debugger for kernels: the prompt, what it shows of a core, and how it steps.

`step` goes to the next statement that any core executes, `next` to the next one of this core;
`up` leads from the kernel to the script that launched it. The simulator's own frames are hidden.
"""

from __future__ import annotations

import bdb
import linecache
import os
import pdb
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FrameType, TracebackType
from typing import Any

from kernels_npu.errors import AscendInferError, SourceLocation, UsageError
from kernels_npu.sim.debugger.breakpoints import CORES, Breakpoint
from kernels_npu.sim.debugger.source_mapping import FILES, PREFIX, place_of
from kernels_npu.sim.machine.core_runtime import CoreRuntime
from kernels_npu.sim.machine.on_chip_array import OnChipArray

#: Packages whose frames are between a kernel and the script, and of no use to either.
_HIDDEN = ("kernels_npu", "ascend_infer", "runpy", "contextlib", "importlib", "bdb", "pdb", "torch")
#: What runs the user's script; the frames below it are the command line's.
_SCRIPT_RUNNER = "kernels_npu.sim.device.run_script"


def runtime_of(frame: FrameType) -> CoreRuntime | None:
    """The core that runs the kernel frame `frame`; None for any other frame."""
    runtime = frame.f_globals.get(f"{PREFIX}R")
    return runtime if isinstance(runtime, CoreRuntime) else None


class KernelDebugger(pdb.Pdb):
    """`pdb` on kernel frames."""

    def __init__(self) -> None:
        super().__init__(nosigint=True)
        #: executed at every breakpoint in place of the prompt, after which the kernel goes on
        self.commands_at_stop: list[str] = []
        self._reached: set[Breakpoint] = set()
        #: lines on which a launched kernel has statements, by file
        self._lines: dict[str, set[int]] = {}

    def knows(self, locations: Iterable[SourceLocation]) -> None:
        """Statements of a kernel that was made for the debugger."""
        for loc in locations:
            self._lines.setdefault(loc.file, set()).add(loc.line)

    def stop(self, point: Breakpoint, frame: FrameType) -> None:
        """`frame` is at `point`; see `enter`."""
        self._reached.add(point)
        self.enter(frame)

    def missed(self, points: Iterable[Breakpoint]) -> Iterator[AscendInferError]:
        """What to say about each of `points` at which nothing stopped."""
        for point in points:
            if point in self._reached:
                continue
            lines = {n for f, own in self._lines.items() if point.matches_file(f) for n in own}
            near = ", ".join(map(str, sorted(sorted(lines, key=lambda n: abs(n - point.line))[:3])))
            if point.line in lines:
                what = f"the breakpoint {point} was never reached"
                fix = "check the block and core, and the conditions around the line"
            elif lines:
                what = f"no kernel statement stands at the breakpoint {point}"
                fix = f"the nearest statements are on lines {near}"
            else:
                what = f"no launched kernel has statements in the file of the breakpoint {point}"
                fix = "check the path; the kernel must be launched for a breakpoint to be reached"
            yield AscendInferError("AI-DBG-002", what, fix=fix)

    def enter(self, frame: FrameType) -> None:
        """Show the prompt at the line that `frame` is about to execute.

        Raises:
            UsageError: AI-DBG-001 when nobody can answer the prompt.
            bdb.BdbQuit: the user ended the session.
        """
        if not self.commands_at_stop and not sys.stdin.isatty():
            raise UsageError(
                "AI-DBG-001",
                "a kernel stopped for the debugger, and standard input is not a terminal",
                where=SourceLocation(*_place(frame, frame.f_lineno)),
                rule="the debugger's prompt needs a terminal, or commands given beforehand",
                fix="run in a terminal, pass --break-command, or set PYTHONBREAKPOINT=0",
            )
        self.stdout = sys.stdout
        self.cmdqueue = [*self.commands_at_stop, "continue"] if self.commands_at_stop else []
        self.reset()
        bottom = frame
        while bottom.f_back is not None:
            bottom = bottom.f_back
        self.botframe = bottom
        self.set_step()
        self.interaction(frame, None)
        if self.quitting:
            raise bdb.BdbQuit
        if self.breaks or self.stoplineno != -1:
            outer: FrameType | None = frame
            while outer is not None:
                outer.f_trace = self.trace_dispatch
                outer = outer.f_back
            sys.settrace(self.trace_dispatch)

    # ------------------------------------------------------------------ where it stops

    def stop_here(self, frame: FrameType) -> bool:
        return runtime_of(frame) is not None and bool(super().stop_here(frame))

    def user_call(self, frame: FrameType, argument_list: None) -> None:
        """A core starts or goes on: its next line is where to stop."""

    def user_return(self, frame: FrameType, return_value: Any) -> None:
        """A core waits or has finished: stop at the next statement of any core."""
        self.set_step()

    # ------------------------------------------------------------------ what it shows

    def interaction(self, frame: FrameType | None, *exception: Any) -> None:
        runtime = None if frame is None else runtime_of(frame)
        if runtime is not None:
            place = f"block {runtime.state.block} {CORES[runtime.core]}"
            self.message(f"[{runtime.state.launch.kernel} {place}]")
        if self.commands_at_stop and not self.cmdqueue:
            self.cmdqueue = ["continue"]
        super().interaction(frame, *exception)

    def get_stack(
        self, f: FrameType | None, t: TracebackType | None
    ) -> tuple[list[tuple[FrameType, int]], int]:
        """The kernel's frame on those of the script that launched it."""
        stack, _ = super().get_stack(f, t)
        started = [i for i, (frame, _) in enumerate(stack) if _module(frame) == _SCRIPT_RUNNER]
        kept = [entry for entry in stack[max(started, default=0) :] if not _is_hidden(entry[0])]
        return kept, len(kept) - 1

    def format_stack_entry(self, frame_lineno: tuple[FrameType, int], *rest: Any) -> str:
        """A stack entry; statements of a macro in another file are shown from there."""
        frame, line = frame_lineno
        file, own = _place(frame, line)
        if own == line:
            return super().format_stack_entry(frame_lineno, *rest)
        text = linecache.getline(file, own).strip()
        return f"{file}({own}){frame.f_code.co_name}()\n-> {text}"

    def do_buffers(self, argument: str) -> None:
        """buffers

        List the on-chip buffers of this core: name, dtype, shape, memory and address.
        """
        for name, value in self.curframe.f_locals.items():  # type: ignore[union-attr]
            if isinstance(value, OnChipArray) and value.place:
                self.message(f"{name}: {value.place}")


def _place(frame: FrameType, line: int) -> tuple[str, int]:
    return place_of(line, frame.f_code.co_filename, frame.f_globals.get(FILES, ()))


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _is_hidden(frame: FrameType) -> bool:
    return runtime_of(frame) is None and _module(frame).split(".")[0] in _HIDDEN


_debugger: KernelDebugger | None = None


def debugger() -> KernelDebugger:
    """The process' debugger: one prompt, whichever core stops."""
    global _debugger
    if _debugger is None:
        _debugger = KernelDebugger()
    return _debugger


def stopper(runtime: CoreRuntime, breakpoints: Sequence[Breakpoint]) -> Callable[[int], None]:
    """What a mapped program calls where breakpoint `number` stands."""

    def stop(number: int) -> None:
        point = breakpoints[number]
        if point.holds(runtime.state.block, CORES[runtime.core]):
            debugger().stop(point, sys._getframe(1))

    return stop


def break_in_kernel() -> None:
    """`breakpoint()` in a kernel; PYTHONBREAKPOINT decides, as everywhere."""
    hook = os.environ.get("PYTHONBREAKPOINT", "")
    if hook in ("", "pdb.set_trace"):
        debugger().enter(sys._getframe(1))
    elif hook != "0":
        sys.breakpointhook()
