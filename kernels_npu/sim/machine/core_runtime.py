"""Services that a generated core program calls (`R` in its source)."""

from __future__ import annotations

from kernels_npu.sim import ir
from kernels_npu.sim.machine.block_state import BlockState
from kernels_npu.sim.machine.clocks import Clocks
from kernels_npu.sim.machine.core_reports import CoreReports
from kernels_npu.sim.machine.cross_flags import COUNTER_LIMIT, CrossFlags, Route, Target
from kernels_npu.sim.machine.findings import ERROR, WARNING
from kernels_npu.sim.machine.printing import Console
from kernels_npu.sim.machine.shadow import CORES
from kernels_npu.sim.machine.sites import Site
from kernels_npu.sim.machine.sync_advice import Advice
from kernels_npu.sim.machine.sync_watch import SyncWatch

#: Highest event id that upstream kernels use for flags within a core.
LAST_EVENT = 15
#: Highest event id that the vendor documents.
DOCUMENTED_EVENT = 7


class CoreRuntime(CoreReports):
    """Synchronisation and reports of one core; checks that need no speed."""

    def __init__(
        self, core: int, slot: int, state: BlockState, sites: tuple[Site, ...], *, monitored: bool
    ) -> None:
        super().__init__(core, state, sites)
        self.slot = slot
        #: the core's number among all that are alive
        self.number = state.first_core + core
        self.monitored = monitored
        self.cross_flags: CrossFlags | None = None
        self._targets: dict[int, Target] = {}
        self._routes: dict[tuple[int, int], Route] = {}
        self.check_flags = True
        self.console = Console(CORES[core])
        #: counts what flags and barriers tell, until enough is known
        self.watch: SyncWatch | None = None
        #: the same, until its findings are read
        self.watched: SyncWatch | None = None

    # ------------------------------------------------------------------ flags

    def loop_limit(self) -> int:
        """How many iterations a `while` may take."""
        return self.state.launch.config.loop_limit

    def join(self, cores: list[int]) -> None:
        """`sync_all` of `cores`."""
        if self.monitored:
            self.state.monitor.join_cores(cores)

    def start_watch(self, watch: SyncWatch) -> None:
        """Let `watch` see what flags and barriers tell."""
        if not watch.done:
            self.watch = self.watched = watch

    def _rest(self, watch: SyncWatch) -> None:
        if watch.done:
            self.watch = None

    def fence(self, src: str, dst: str) -> None:
        self.state.monitor.fence(self.number, src, dst)
        if self.watch is not None:
            self.watch.fence(src, dst)

    def barrier(self, site: int = -1) -> None:
        """All pipes of the core drain; at `site` when the program asks for it."""
        self.state.monitor.barrier(self.number)
        if self.watch is not None:
            self.watch.barrier(site)
            self._rest(self.watch)

    def pipe_barrier(self, pipe: str) -> None:
        self.state.monitor.pipe_barrier(self.number, pipe)

    def set_flag(self, site: int, src: str, dst: str, event: int) -> None:
        if self.check_flags and not 0 <= event <= DOCUMENTED_EVENT:
            accepted = 0 <= event <= LAST_EVENT
            self.report(
                "AI-SYNC-007",
                WARNING if accepted else ERROR,
                f"set_flag {src}->{dst} uses event id {event}; documented ids are 0 to "
                f"{DOCUMENTED_EVENT}"
                + (
                    ", the compiler passes it on"
                    if accepted
                    else f", it accepts up to {LAST_EVENT}"
                ),
                site,
                "use an event id from 0 to 7; every pair of pipes has its own eight",
            )
        outstanding = self.state.monitor.set_flag(self.number, src, dst, event, site)
        if self.watch is not None:
            self.watch.set_flag(site, src, dst, event)
        if self.check_flags and outstanding > 1:
            self.report(
                "AI-SYNC-004",
                WARNING,
                f"flag {src}->{dst} event {event} is set again before its wait "
                f"({outstanding} outstanding); the hardware keeps one",
                site,
                lambda: self._advice(self.state.monitor.last_set(self.number, src, dst, event)),
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
        if self.watch is not None:
            self.watch.wait_flag(site, src, dst, event)
            self._rest(self.watch)
        if not self.state.monitor.wait_flag(self.number, src, dst, event) and self.check_flags:
            self.report(
                "AI-SYNC-001",
                ERROR,
                f"wait_flag {src}->{dst} event {event} without a set_flag before it",
                site,
                lambda: self._advice(site),
            )

    def _advice(self, site: int) -> Advice:
        """What the flag set or waited for at `site` lacks."""
        stmt = self.sites[site].stmt
        advisor = self.state.launch.advisors.flags(self.core, self.sites)
        if isinstance(stmt, ir.SetFlag):
            return advisor.for_set(stmt)
        assert isinstance(stmt, ir.WaitFlag)
        return advisor.for_wait(stmt)

    def release(self, pipe: str) -> Clocks | None:
        return self.state.monitor.release_to_cores(self.number, pipe) if self.monitored else None

    def set_cross(self, site: int, pipe: str, flag: int, mode: int) -> None:
        self.cross_arrived(site, flag, mode, self.release(pipe))

    def cross_arrived(self, site: int, flag: int, mode: int, clocks: Clocks | None) -> None:
        """The set takes effect."""
        assert self.cross_flags is not None
        route = self._routes.get((flag, mode))
        if route is None:
            route = self.cross_flags.route(self.slot, self.core, flag, mode)
            self._routes[(flag, mode)] = route
        count = self.cross_flags.arrive(route, clocks, site)
        if count <= 1:
            return
        stmt = self.sites[site].stmt
        expected = stmt.in_flight if isinstance(stmt, ir.SetCrossFlag) else 1
        if not self.check_flags or count <= min(expected, COUNTER_LIMIT):
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

    def _awaited(self, flag: int) -> Target:
        """The core's side of a flag that it waits for."""
        target = self._targets.get(flag)
        if target is None:
            assert self.cross_flags is not None
            target = self._targets[flag] = self.cross_flags.target((self.slot, self.core), flag)
        return target

    def cross_ready(self, flag: int) -> bool:
        return bool(self._awaited(flag).signals)

    def take_cross(self, flag: int) -> None:
        target = self._awaited(flag)
        clocks = target.signals.popleft()
        if clocks is not None:
            target.takes.append(self.state.monitor.take_from_cores(self.number, clocks))
