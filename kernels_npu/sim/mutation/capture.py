"""Runs a script once and keeps what its launches were given."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import numpy as np

from kernels_npu.sim.config import Checks, configure
from kernels_npu.sim.machine import CompiledKernel, GmArg, compiled
from kernels_npu.sim.machine.memory import Bytes
from kernels_npu.sim.machine.outputs import written_tensors
from kernels_npu.sim.mutation.deletions import places
from kernels_npu.sim.mutation.selection import synchronising_tests

Arguments = Sequence["GmArg | int | float"]


class Snapshot:
    """The arguments of a launch with their own memory, which can be put back as it was.

    Tensors that shared bytes share them here. written: names of the tensors that the kernel writes;
    only memory that one of them reaches is kept twice, put back and looked at. None: all of it.
    """

    def __init__(self, args: Arguments, written: frozenset[str] | None = None) -> None:
        tensors = [a for a in args if isinstance(a, GmArg)]
        regions: list[list[int]] = []
        for start, stop in sorted((_address(t), _address(t) + t.data.size) for t in tensors):
            if regions and start < regions[-1][1]:
                regions[-1][1] = max(stop, regions[-1][1])
            else:
                regions.append([start, stop])
        memory = [np.zeros(stop - start, dtype=np.uint8) for start, stop in regions]
        #: bytes of all tensors
        self.size = sum(each.size for each in memory)
        changing: set[int] = set()
        self._args: list[GmArg | int | float] = []
        for arg in args:
            if isinstance(arg, GmArg):
                number = max(i for i, (start, _) in enumerate(regions) if start <= _address(arg))
                first = _address(arg) - regions[number][0]
                data = memory[number][first : first + arg.data.size]
                data[:] = arg.data
                self._args.append(GmArg(data, arg.shape, arg.dtype, arg.name))
                if written is None or arg.name in written:
                    changing.add(number)
            else:
                self._args.append(arg)
        self._memory = [memory[number] for number in sorted(changing)]
        self._saved = [each.copy() for each in self._memory]

    def arguments(self) -> list[GmArg | int | float]:
        """The arguments, with the contents that they had."""
        for memory, saved in zip(self._memory, self._saved):
            memory[:] = saved
        return self._args

    def contents(self) -> list[Bytes]:
        """A copy of what the memory that the kernel writes holds now."""
        return [memory.copy() for memory in self._memory]

    def holds(self, contents: Sequence[Bytes]) -> bool:
        """Whether that memory holds the same bytes as when `contents` was taken."""
        return all(np.array_equal(a, b) for a, b in zip(self._memory, contents))


def _address(arg: GmArg) -> int:
    return int(arg.data.__array_interface__["data"][0])


@dataclass(frozen=True, eq=False)
class Captured:
    """A launch: the kernel as compiled, and its arguments."""

    kernel: CompiledKernel
    snapshot: Snapshot


class Enough(KeyboardInterrupt):
    """Ends a script, or pytest, from which nothing more is wanted."""


@dataclass
class Recorder:
    """Keeps, of every kernel that synchronises, the smallest launches of different sizes.

    keep: how many per kernel. largest: bytes of arguments beyond which a launch is left out unless
    it is the only one. patience: seconds of computing without anything new after which the script
    is ended. kernels: how many to expect; when all have been seen and one launch of each is
    enough, the script is ended too. 0: unknown.
    """

    keep: int = 1
    largest: int = 1 << 30
    patience: float = 20.0
    kernels: int = 0
    launches: dict[tuple[str, int], list[Captured]] = field(default_factory=dict)
    _seen: set[object] = field(default_factory=set)
    _met: set[tuple[str, int]] = field(default_factory=set)

    def __call__(self, kernel: CompiledKernel, args: Arguments) -> None:
        """Observe a launch."""
        loc = kernel.source.loc
        self._met.add((loc.file, loc.line))
        shapes = tuple(a.shape if isinstance(a, GmArg) else a for a in args)
        if (kernel, shapes) not in self._seen and places(kernel.source):
            self._seen.add((kernel, shapes))
            signal.setitimer(signal.ITIMER_PROF, self.patience)
            self._keep(self.launches.setdefault((loc.file, loc.line), []), kernel, args)
        if self.keep == 1 and len(self._met) == self.kernels:
            raise Enough

    def _keep(self, kept: list[Captured], kernel: CompiledKernel, args: Arguments) -> None:
        size = sum(a.data.size for a in args if isinstance(a, GmArg))
        full = len(kept) == self.keep
        if kept and (size > self.largest or (full and size >= kept[-1].snapshot.size)):
            return
        kept.append(Captured(kernel, Snapshot(args, written_tensors(kernel.lowered))))
        kept.sort(key=lambda c: c.snapshot.size)
        del kept[self.keep :]


@contextlib.contextmanager
def observing(recorder: Recorder) -> Iterator[None]:
    """Let `recorder` see the launches in the body, which execute without checks."""

    def stop(number: int, frame: object) -> NoReturn:
        raise Enough

    previous = signal.signal(signal.SIGPROF, stop)
    compiled.launch_observers.append(recorder)
    try:
        with configure(checks=Checks.none(), on_finding="report"):
            yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)
        compiled.launch_observers.remove(recorder)


#: Uses the kernels of a file in place of its script, if it knows how; whether it did.
Driver = Callable[[str], bool]


def capture(script: Path, recorder: Recorder, driver: Driver | None = None) -> str:
    """Run `script` (a pytest file through pytest) under `recorder`; how it ended, if not well.

    driver: asked first, for files whose kernels another program launches.
    """
    from kernels_npu.sim.device.run_script import run_script

    with observing(recorder):
        try:
            if script.name.startswith("test_"):
                return _run_tests(script)
            if driver is not None:
                _import_as_scripts_do(script)
                if driver(str(script)):
                    return ""
            run_script(script)
        except Enough:
            return ""
        except SystemExit as stop:
            return "" if stop.code in (None, 0) else f"exit code {stop.code}"
        except Exception as error:  # noqa: BLE001 (the script's own; what was seen counts)
            return f"{type(error).__name__}: {str(error).splitlines()[:1]}"
    return ""


def _run_tests(script: Path) -> str:
    import pytest

    _import_as_scripts_do(script)
    tests = synchronising_tests(script)
    if not tests:
        return "no test leads to a kernel that synchronises"
    code = pytest.main(["-q", "-p", "no:cacheprovider", *tests])
    ended = code in (pytest.ExitCode.OK, pytest.ExitCode.INTERRUPTED)
    return "" if ended else f"pytest exit code {int(code)}"


def _import_as_scripts_do(script: Path) -> None:
    """`tilelang` is the simulator, and what lies next to `script` can be imported."""
    from kernels_npu.sim.device.setup import enable
    from kernels_npu.sim.frontend.shims import install_shims

    enable()
    install_shims()
    sys.path.insert(0, str(script.parent))
