"""Services that a generated core program calls (`R` in its source)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from kernels_npu.errors import SourceLocation
from kernels_npu.sim.machine.access_checks import report_unwritten
from kernels_npu.sim.machine.block_state import BlockState
from kernels_npu.sim.machine.cross_flags import COUNTER_LIMIT, CrossFlags
from kernels_npu.sim.machine.findings import ERROR, WARNING, Finding
from kernels_npu.sim.machine.monitor import Clock
from kernels_npu.sim.machine.shadow import CORES
from kernels_npu.sim.machine.sites import Site

#: Highest event id that upstream kernels use for flags within a core.
LAST_EVENT = 15


class CoreRuntime:
    """Synchronisation and reports of one core; checks that need no speed."""

    def __init__(
        self, core: int, slot: int, state: BlockState, sites: tuple[Site, ...], *, monitored: bool
    ) -> None:
        self.core = core
        self.slot = slot
        #: the core's number among all that are alive
        self.number = state.first_core + core
        self.state = state
        self.sites = sites
        self.monitored = monitored
        self.cross_flags: CrossFlags | None = None
        self.check_flags = True

    # ------------------------------------------------------------------ flags

    def join(self, cores: list[int]) -> None:
        """`sync_all` of `cores`."""
        if self.monitored:
            self.state.monitor.join_cores(cores)

    def fence(self, src: str, dst: str) -> None:
        self.state.monitor.fence(self.number, src, dst)

    def barrier(self) -> None:
        self.state.monitor.barrier(self.number)

    def set_flag(self, site: int, src: str, dst: str, event: int) -> None:
        if self.check_flags and not 0 <= event <= LAST_EVENT:
            self.report(
                "AI-SYNC-007",
                ERROR,
                f"set_flag {src}->{dst} uses event id {event}",
                site,
                f"use event ids 0 to 7 (the compiler accepts up to {LAST_EVENT})",
            )
        outstanding = self.state.monitor.set_flag(self.number, src, dst, event)
        if self.check_flags and outstanding > 1:
            self.report(
                "AI-SYNC-004",
                WARNING,
                f"flag {src}->{dst} event {event} is set again before its wait "
                f"({outstanding} outstanding); the hardware keeps one",
                site,
                "wait for the flag before setting it again, or use another event id",
            )

    def hidden_events(self, site: int, events: tuple[tuple[str, str, int], ...]) -> None:
        """The operation at `site` sets and waits for `events` itself."""
        for src, dst, event in events:
            if self.state.monitor.outstanding(self.number, src, dst, event):
                self.report(
                    "AI-SYNC-010",
                    WARNING,
                    f"{self.sites[site].op} uses flag {src}->{dst} event {event} itself while the "
                    "program has it set; the hardware keeps one",
                    site,
                    "use event ids from 2 on for flags that stay set across this operation",
                )

    def wait_flag(self, site: int, src: str, dst: str, event: int) -> None:
        if not self.state.monitor.wait_flag(self.number, src, dst, event) and self.check_flags:
            self.report(
                "AI-SYNC-001",
                ERROR,
                f"wait_flag {src}->{dst} event {event} without a set_flag before it",
                site,
                f'add T.set_flag("{src.lower()}", "{dst.lower()}", {event}) on every path to here',
            )

    def release(self, pipe: str) -> Clock | None:
        return self.state.monitor.release(self.number, pipe) if self.monitored else None

    def set_cross(self, site: int, pipe: str, flag: int, mode: int) -> None:
        self.cross_arrived(site, flag, mode, self.release(pipe))

    def cross_arrived(self, site: int, flag: int, mode: int, clock: Clock | None) -> None:
        """The set takes effect."""
        assert self.cross_flags is not None
        count = self.cross_flags.arrive(self.slot, self.core, flag, mode, clock)
        if not self.check_flags or count < 2:
            return
        over = count > COUNTER_LIMIT
        self.report(
            "AI-SYNC-005" if over else "AI-SYNC-006",
            ERROR if over else WARNING,
            f"cross-core flag {flag} has {count} sets outstanding"
            + (f", the counter holds {COUNTER_LIMIT}" if over else "; a second set may be lost"),
            site,
            "let the consumer return a credit flag, and wait for it before the next set",
        )

    def cross_ready(self, flag: int) -> bool:
        assert self.cross_flags is not None
        return self.cross_flags.ready(self.slot, self.core, flag)

    def take_cross(self, flag: int) -> None:
        assert self.cross_flags is not None
        clock = self.cross_flags.take(self.slot, self.core, flag)
        if clock is not None:
            monitor = self.state.monitor
            monitor.acquire(self.number, "S", clock)
            self.cross_flags.taken(self.slot, self.core, flag, monitor.mark_wait(self.number))

    # ------------------------------------------------------------------ reports

    def report(self, code: str, severity: str, message: str, site: int, fix: str) -> None:
        launch = self.state.launch
        loc: SourceLocation = self.sites[site].stmt.loc
        key = (code, loc, CORES[self.core][:3])
        if not launch.log.seen(key):
            launch.log.add(
                key,
                Finding(
                    code=code,
                    severity=severity,
                    message=f"{message} (block {self.state.block}, {CORES[self.core]})",
                    kernel=launch.kernel,
                    loc=loc,
                    fix=fix,
                ),
            )

    def out_of_bounds(self, site: int, tensor: int, where: tuple[int, ...]) -> None:
        launch = self.state.launch
        self._stop(
            ("bounds", site),
            "AI-BOUND-001",
            f"{self.sites[site].op} reaches {launch.tensor_names[tensor]}{list(where)}, outside "
            "the tensor",
            site,
            "guard the access, or correct the index (block ids and slots come from the caller)",
        )

    def stores_unwritten(self, load: int) -> None:
        """An element that was never written, read at site `load`, is stored to global memory."""
        site = self.sites[load]
        report_unwritten(self.state, self.core, site, site.footprints[0])

    def beyond_border(self, site: int, tensor: int, where: tuple[int, ...]) -> None:
        """A move of one row that lies past the tensor's end: the device clips it to nothing."""
        launch = self.state.launch
        self.report(
            "AI-BOUND-008",
            WARNING,
            f"{self.sites[site].op} names {launch.tensor_names[tensor]}{list(where)}, past the "
            "last row; nothing is moved (a load leaves the pad value)",
            site,
            "guard the access if the row was meant to exist",
        )

    def out_of_buffer(self, site: int, buffer: int, offset: int, last: int) -> None:
        name = self._buffer_name(site, buffer)
        self._stop(
            ("buffer bounds", site),
            "AI-BOUND-002",
            f"{self.sites[site].op} starts at element {offset} of {name}; the last start "
            f"that stays inside is {last}",
            site,
            "correct the index, or enlarge the buffer",
        )

    def outside_tensor(self, site: int, tensor: int) -> Callable[[tuple[int, ...]], None]:
        """The report of an index outside a tensor."""
        return lambda where: self.out_of_bounds(site, tensor, where)

    def outside_buffer(
        self, site: int, buffer: tuple[str, tuple[int, ...]]
    ) -> Callable[[tuple[int, ...]], None]:
        """The report of an index outside an on-chip buffer, given its name and shape."""

        def report(where: tuple[int, ...]) -> None:
            name, shape = buffer
            self._stop(
                ("buffer bounds", site),
                "AI-BOUND-002",
                f"{self.sites[site].op} reaches {name}{list(where)}, outside the buffer's shape "
                f"{list(shape)}",
                site,
                "correct the index, guard it with T.if_then_else, or enlarge the buffer",
            )

        return report

    def does_not_fit(self, site: int, moved: tuple[int, int], tile: tuple[int, int]) -> None:
        """The global side of a move names more than the on-chip side."""
        self._stop(
            ("fit", site),
            "AI-BOUND-011",
            f"{self.sites[site].op} moves {moved[0]} rows of {moved[1]} elements (the global side "
            f"decides), the on-chip side names {tile[0]} rows of {tile[1]}",
            site,
            "slice both sides alike",
        )

    def misaligned(self, site: int, buffer: int, offset: int) -> None:
        self.report(
            "AI-BOUND-006",
            ERROR,
            f"{self.sites[site].op} operand {self._buffer_name(site, buffer)} starts at element "
            f"{offset}, not on a 32-byte boundary",
            site,
            "pad the rows to a multiple of 32 bytes",
        )

    def outside_memory(self, site: int, buffer: str) -> Callable[[int, int], None]:
        """The report of a byte offset that lies outside the memory of `buffer`."""

        def report(offset: int, size: int) -> None:
            self._stop(
                ("memory bounds", site),
                "AI-BOUND-002",
                f"{self.sites[site].op} reads at byte {offset} from the start of {buffer}, the "
                f"memory in use ends after {size}",
                site,
                "correct the offsets: they are bytes, relative to the start of the source",
            )

        return report

    def _buffer_name(self, site: int, buffer: int) -> str:
        views = (f.view for f in self.sites[site].footprints)
        return next(v.buffer.name for v in views if v.buffer.uid == buffer)

    def _stop(
        self, key: tuple[object, ...], code: str, message: str, site: int, fix: str
    ) -> NoReturn:
        launch = self.state.launch
        launch.log.add(
            (*key, self.core),
            Finding(
                code=code,
                severity=ERROR,
                message=f"{message} (block {self.state.block}, {CORES[self.core]})",
                kernel=launch.kernel,
                loc=self.sites[site].stmt.loc,
                fix=fix,
            ),
        )
        raise StopLaunch


class StopLaunch(Exception):
    """Ends a launch whose fault makes going on meaningless; the finding is already recorded."""
