"""Reports of one core: what its flags and its accesses broke, with the statement's line."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from kernels_npu.errors import SourceLocation
from kernels_npu.sim.machine.access_checks import report_unwritten
from kernels_npu.sim.machine.block_state import BlockState
from kernels_npu.sim.machine.findings import ERROR, HINT, WARNING, Finding
from kernels_npu.sim.machine.shadow import CORES
from kernels_npu.sim.machine.sites import Site
from kernels_npu.sim.machine.sync_advice import Advice


class CoreReports:
    """Adds findings about one core to the launch's log, one per statement and kind of core."""

    def __init__(self, core: int, state: BlockState, sites: tuple[Site, ...]) -> None:
        self.core = core
        self.state = state
        self.sites = sites

    def report(
        self, code: str, severity: str, message: str, site: int, fix: str | Callable[[], Advice]
    ) -> None:
        """Something that does not stop the launch; `fix` may be worked out when first needed."""
        launch = self.state.launch
        loc: SourceLocation = self.sites[site].stmt.loc
        key = (code, loc, CORES[self.core][:3])
        if launch.log.seen(key):
            return
        advice = Advice(fix) if isinstance(fix, str) else fix()
        launch.log.add(
            key,
            Finding(
                code=code,
                severity=severity,
                message=f"{message} (block {self.state.block}, {CORES[self.core]})",
                kernel=launch.kernel,
                loc=loc,
                fix=advice.text,
                insertions=advice.insertions,
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

    def beyond_bytes(self, site: int, tensor: int, end: int) -> None:
        """A tensor with fewer bytes than its declared shape is accessed behind its last one."""
        launch = self.state.launch
        present = launch.tensors[tensor]
        self._stop(
            ("bytes", site),
            "AI-BOUND-007",
            f"{self.sites[site].op} reaches element {end - 1} of {launch.tensor_names[tensor]}; "
            f"the tensor given has {present.size} ({present.nbytes} bytes), fewer than the kernel "
            "declares",
            site,
            "pass a tensor of the declared shape, or bound the access by the size that is passed",
        )

    def stores_unwritten(self, load: int) -> None:
        """An element that was never written, read at site `load`, is stored to global memory."""
        site = self.sites[load]
        report_unwritten(self.state, self.core, site, site.footprints[0])

    def beyond_border(self, site: int, tensor: int, where: tuple[int, ...], rows: int) -> None:
        """A move that lies past the tensor's end: the device clips it to nothing.

        For a tile that is how tails are written; a single row was likely meant to exist.
        """
        launch = self.state.launch
        self.report(
            "AI-BOUND-008",
            WARNING if rows == 1 else HINT,
            f"{self.sites[site].op} names {launch.tensor_names[tensor]}{list(where)}, past the "
            "last row; nothing is moved (a load leaves the pad value)",
            site,
            "guard the access if the rows were meant to exist, or to save the instruction",
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

    def endless(self, site: int) -> None:
        """A `while` has run for longer than the configuration allows."""
        limit = self.state.launch.config.loop_limit
        self._stop(
            ("endless", site),
            "AI-SRC-072",
            f"the while loop has not ended after {limit:,} iterations",
            site,
            "let the loop's condition change in its body; to wait for another core use a "
            "cross-core flag; raise SimConfig.loop_limit if the loop is that long",
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
