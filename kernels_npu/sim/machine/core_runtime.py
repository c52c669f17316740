"""Services that a generated core program calls (`R` in its source)."""

from __future__ import annotations

from kernels_npu.errors import SourceLocation
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
        self.state = state
        self.sites = sites
        self.monitored = monitored
        self.cross_flags: CrossFlags | None = None
        self.check_flags = True

    # ------------------------------------------------------------------ flags

    def fence(self, src: str, dst: str) -> None:
        self.state.monitor.fence(self.core, src, dst)

    def barrier(self) -> None:
        self.state.monitor.barrier(self.core)

    def set_flag(self, site: int, src: str, dst: str, event: int) -> None:
        if self.check_flags and not 0 <= event <= LAST_EVENT:
            self.report(
                "AI-SYNC-007",
                ERROR,
                f"set_flag {src}->{dst} uses event id {event}",
                site,
                f"use event ids 0 to 7 (the compiler accepts up to {LAST_EVENT})",
            )
        outstanding = self.state.monitor.set_flag(self.core, src, dst, event)
        if self.check_flags and outstanding > 1:
            self.report(
                "AI-SYNC-004",
                WARNING,
                f"flag {src}->{dst} event {event} is set again before its wait "
                f"({outstanding} outstanding); the hardware keeps one",
                site,
                "wait for the flag before setting it again, or use another event id",
            )

    def wait_flag(self, site: int, src: str, dst: str, event: int) -> None:
        if not self.state.monitor.wait_flag(self.core, src, dst, event) and self.check_flags:
            self.report(
                "AI-SYNC-001",
                ERROR,
                f"wait_flag {src}->{dst} event {event} without a set_flag before it",
                site,
                f'add T.set_flag("{src.lower()}", "{dst.lower()}", {event}) on every path to here',
            )

    def release(self, pipe: str) -> Clock | None:
        return self.state.monitor.release(self.core, pipe) if self.monitored else None

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
            self.state.monitor.acquire(self.core, "S", clock)

    # ------------------------------------------------------------------ reports

    def report(self, code: str, severity: str, message: str, site: int, fix: str) -> None:
        launch = self.state.launch
        assert launch is not None
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
        assert launch is not None
        name = launch.tensor_names[tensor]
        raise_now = Finding(
            code="AI-BOUND-001",
            severity=ERROR,
            message=f"{self.sites[site].op} reaches {name}{list(where)}, outside the tensor "
            f"(block {self.state.block}, {CORES[self.core]})",
            kernel=launch.kernel,
            loc=self.sites[site].stmt.loc,
            fix="guard the access, or correct the index (block ids and slots come from the caller)",
        )
        launch.log.add(("bounds", site, self.core), raise_now)
        raise StopLaunch

    def beyond_border(self, site: int, tensor: int, where: tuple[int, ...]) -> None:
        """A move of one row that lies past the tensor's end: the device clips it to nothing."""
        launch = self.state.launch
        assert launch is not None
        self.report(
            "AI-BOUND-008",
            WARNING,
            f"{self.sites[site].op} names {launch.tensor_names[tensor]}{list(where)}, past the last "
            "row; nothing is moved (a load leaves the pad value)",
            site,
            "guard the access if the row was meant to exist",
        )

    def out_of_buffer(self, site: int, buffer: int, offset: int, last: int) -> None:
        launch = self.state.launch
        assert launch is not None
        name = next(
            f.view.buffer.name for f in self.sites[site].footprints if f.view.buffer.uid == buffer
        )
        finding = Finding(
            code="AI-BOUND-002",
            severity=ERROR,
            message=f"{self.sites[site].op} starts at element {offset} of {name}; the last start "
            f"that stays inside is {last} (block {self.state.block}, {CORES[self.core]})",
            kernel=launch.kernel,
            loc=self.sites[site].stmt.loc,
            fix="correct the index, or enlarge the buffer",
        )
        launch.log.add(("buffer bounds", site, self.core), finding)
        raise StopLaunch

    def misaligned(self, site: int, buffer: int, offset: int) -> None:
        name = next(
            f.view.buffer.name for f in self.sites[site].footprints if f.view.buffer.uid == buffer
        )
        self.report(
            "AI-BOUND-006",
            ERROR,
            f"{self.sites[site].op} operand {name} starts at element {offset}, not on a 32-byte "
            "boundary",
            site,
            "pad the rows to a multiple of 32 bytes",
        )


class StopLaunch(Exception):
    """Ends a launch whose fault makes going on meaningless; the finding is already recorded."""
