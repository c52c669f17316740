"""When a core's instructions would run, in modelled cycles, by the order its program asks for.

Generated programs of a traced launch report every issue here (`X` in their source). An instruction
starts when its pipe is free and the scalar unit has issued it; issuing takes no cycles and pipes
queue without limit. A flag lets a pipe, a barrier or a cross-core flag the scalar unit, go on
when the other side is through. Sets, waits and barriers take one cycle of their pipe.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from kernels_npu.sim.machine.cross_flags import CrossFlags
from kernels_npu.sim.machine.shadow import PIPES
from kernels_npu.sim.machine.sites import Site
from kernels_npu.sim.machine.trace_arguments import SliceText, slice_text, touched_ranges
from kernels_npu.sim.tracing.chrome_file import ChromeTraceFile

#: Where an arrow starts: process (None: not in the trace), pipe and cycle.
Tail = tuple["int | None", str, int]


@dataclass(frozen=True)
class Signal:
    """A set that was issued: the cycle from which it is seen, and the arrows that it sends."""

    cycle: int
    tails: tuple[Tail, ...]


class SignalBoard:
    """Cross-core signals and arrivals at `sync_all` of the blocks alive together.

    The n-th wait takes the n-th signal, in program order; `CrossFlags` knows who signals whom.
    """

    def __init__(self, flags: CrossFlags) -> None:
        self._flags = flags
        self._pending: dict[tuple[object, ...], dict[object, deque[Signal]]] = {}
        self._signals: dict[tuple[object, int], deque[Signal]] = {}
        self._arrivals: dict[tuple[tuple[int, ...], int], int] = {}

    def set(self, slot: int, core: int, flag: int, mode: int, signal: Signal) -> None:
        """A core sets a cross-core flag."""
        group, members, targets = self._flags.quorum(slot, core, flag, mode)
        pending = self._pending.setdefault(group, {})
        pending.setdefault((slot, core), deque()).append(signal)
        if not all(pending.get(member) for member in members):
            return
        parts = [pending[member].popleft() for member in members]
        merged = Signal(max(p.cycle for p in parts), tuple(t for p in parts for t in p.tails))
        for target in targets:
            self._signals.setdefault((target, flag), deque()).append(merged)

    def take(self, slot: int, core: int, flag: int) -> Signal:
        """The signal that a core's wait consumes."""
        return self._signals[((slot, core), flag)].popleft()

    def arrive(self, kinds: tuple[int, ...], turn: int, cycle: int) -> None:
        """A core reaches its `turn`-th `sync_all` of the core numbers `kinds`."""
        self._arrivals[(kinds, turn)] = max(cycle, self._arrivals.get((kinds, turn), 0))

    def released(self, kinds: tuple[int, ...], turn: int) -> int:
        """The cycle after the last arrival; everyone has arrived when a core goes on."""
        return self._arrivals[(kinds, turn)] + 1


class Timeline:
    """The pipes of one core on the trace's axis."""

    def __init__(self, slot: int, core: int, sites: Sequence[Site], *, auto_sync: bool) -> None:
        self._place = (slot, core)
        self._sites = sites
        self._texts: list[SliceText | None] = [None] * len(sites)
        self._ranges = touched_ranges(sites) if auto_sync else None
        self._last: dict[tuple[int, bool], int] = {}
        self._free = dict.fromkeys(PIPES, 0)
        self._start = 0
        self._flags: dict[tuple[str, str, int], deque[Signal]] = {}
        self._turns: dict[tuple[int, ...], int] = {}
        self._board: SignalBoard | None = None
        self._file: ChromeTraceFile | None = None
        self._pid: int | None = None
        #: bytes moved from and to global memory so far in the block, by pipe
        self._moved: dict[str, int] = {}

    def start_block(
        self, cycle: int, file: ChromeTraceFile, pid: int | None, board: SignalBoard
    ) -> None:
        """The next block begins at `cycle`; it is written to process `pid` unless that is None."""
        self._free = dict.fromkeys(PIPES, cycle)
        self._start = cycle
        self._flags.clear()
        self._last.clear()
        self._turns.clear()
        self._board, self._file, self._pid = board, file, pid
        self._moved.clear()

    @property
    def end(self) -> int:
        """The cycle at which everything issued so far is done."""
        return max(self._free.values())

    @property
    def length(self) -> int:
        """Cycles from the start of the block to the end of everything issued so far."""
        return self.end - self._start

    # ------------------------------------------------------------------ instructions

    def op(self, site: int, moved: int) -> None:
        """Issue the instruction at `site`, which moves `moved` bytes from or to global memory."""
        here = self._sites[site]
        start = max(self._free[here.pipe], self._free["S"])
        ranges = () if self._ranges is None else self._ranges[site]
        for conflicts, write, _ in ranges:
            for key in conflicts:
                start = max(start, self._last.get((key, True), 0))
                if write:
                    start = max(start, self._last.get((key, False), 0))
        end = start + here.cycles
        self._free[here.pipe] = end
        for _, write, key in ranges:
            self._last[(key, write)] = max(end, self._last.get((key, write), 0))
        more = f',"bytes":{moved}' if moved else ""
        self._write(site, here.pipe, start, here.cycles, "instruction", more)
        if moved and self._pid is not None:
            # One pipe per direction and core, so that each sum grows along the axis.
            self._moved[here.pipe] = self._moved.get(here.pipe, 0) + moved
            track = f"GM bytes by {here.pipe}"
            self._file_of().counter(self._pid, end, track, self._moved[here.pipe])

    def _write(
        self, site: int, pipe: str, start: int, length: int, category: str, more: str = ""
    ) -> None:
        if self._pid is None:
            return
        file = self._file_of()
        if file.full:
            self._pid = None
            return
        text = self._texts[site]
        if text is None:
            text = self._texts[site] = slice_text(self._sites[site])
        args = text.args + more if more else text.args_on_chip
        file.slice(self._pid, pipe, start, length, text.name, category, args)

    def _file_of(self) -> ChromeTraceFile:
        assert self._file is not None
        return self._file

    # ------------------------------------------------------------------ synchronisation

    def _set(self, site: int, pipe: str, more: str) -> Signal:
        start = max(self._free[pipe], self._free["S"])
        self._free[pipe] = start + 1
        self._write(site, pipe, start, 1, "set", more)
        return Signal(start + 1, ((self._pid, pipe, start),))

    def _wait(
        self,
        site: int,
        pipe: str,
        signal: Signal | None,
        more: str = "",
        category: str = "wait",
    ) -> None:
        start = max(self._free[pipe], self._free["S"])
        end = max(start + 1, signal.cycle if signal else 0)
        self._free[pipe] = end
        self._write(site, pipe, start, end - start, category, more)
        for pid, source, when in signal.tails if signal else ():
            if pid is not None and self._pid is not None:
                self._file_of().arrow((pid, source, when), (self._pid, pipe, end - 1))

    def set_flag(self, site: int, src: str, dst: str, event: int) -> None:
        """`set_flag`, executed by pipe `src`."""
        self._flags.setdefault((src, dst, event), deque()).append(
            self._set(site, src, f',"event":{event}')
        )

    def wait_flag(self, site: int, src: str, dst: str, event: int) -> None:
        """`wait_flag`, executed by pipe `dst`; a missing set is a finding, not the trace's."""
        signals = self._flags.get((src, dst, event))
        signal = signals.popleft() if signals else None
        self._wait(site, dst, signal, f',"event":{event}')

    def fence(self, src: str, dst: str) -> None:
        """A set and wait inside an operation."""
        self._free[dst] = max(self._free[dst], self._free[src], self._free["S"])

    def scalar_access(self) -> None:
        """The scalar unit touches UB, before which it waits for V."""
        self._free["S"] = max(self._free["S"], self._free["V"])

    def barrier(self, site: int) -> None:
        """The scalar unit waits for all pipes; `site` is -1 for a barrier inside an operation."""
        end = self.end
        if site < 0:
            self._free["S"] = end
            return
        self._wait(site, "S", Signal(end, ()), category="barrier")

    def set_cross(self, site: int, pipe: str, flag: int, mode: int) -> None:
        """`set_cross_flag`: signals when `pipe` has reached it."""
        assert self._board is not None
        signal = self._set(site, pipe, f',"flag":{flag}')
        self._board.set(*self._place, flag, mode, signal)

    def wait_cross(self, site: int, flag: int) -> None:
        """`wait_cross_flag`: the whole core waits."""
        assert self._board is not None
        self._wait(site, "S", self._board.take(*self._place, flag), f',"flag":{flag}')

    def arrive(self, kinds: tuple[int, ...]) -> None:
        """`sync_all` begins: the core has drained."""
        assert self._board is not None
        self._turns[kinds] = self._turns.get(kinds, 0) + 1
        self._board.arrive(kinds, self._turns[kinds], self.end)

    def leave(self, site: int, kinds: tuple[int, ...]) -> None:
        """`sync_all` ends."""
        assert self._board is not None
        end = self._board.released(kinds, self._turns[kinds])
        self._wait(site, "S", Signal(end, ()), category="barrier")
