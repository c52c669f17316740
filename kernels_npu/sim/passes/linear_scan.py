"""Memory planning switched on (`tl.ascend_memory_planning`): live ranges over one memory.

New memory is taken as long as there is any; after that freed ranges are reused, first fit by
address. Buffers with an address from `T.annotate_address` stay there, and others avoid them while
both are alive.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kernels_npu.errors import KernelSourceError
from kernels_npu.sim import ir
from kernels_npu.sim.passes.buffer_sizes import align_up
from kernels_npu.sim.passes.live_ranges import LiveRange


@dataclass(kw_only=True)
class _Span:
    """A byte range `[start, start + size)`."""

    start: int
    size: int

    @property
    def end(self) -> int:
        return self.start + self.size

    def overlaps(self, other: _Span) -> bool:
        return self.start < other.end and other.start < self.end


class LinearScan:
    """Places the live ranges of one memory.

    Args:
        memory: its name, for messages.
        limit: its usable bytes.
        sizes: bytes per buffer.
        fixed: annotated addresses of buffers in this memory.
    """

    def __init__(
        self,
        *,
        memory: str,
        limit: int,
        sizes: Mapping[ir.Buffer, int],
        fixed: Mapping[ir.Buffer, int],
    ) -> None:
        self.memory = memory
        self.limit = limit
        self.sizes = sizes
        self.fixed = fixed
        self._top = 0
        self._free: list[_Span] = []
        self._placed: dict[ir.Buffer, _Span] = {}
        self._active: list[LiveRange] = []
        self._ranges: dict[ir.Buffer, LiveRange] = {}

    def place(self, ranges: list[LiveRange]) -> dict[ir.Buffer, int]:
        """Byte addresses of the buffers of `ranges`, which are sorted by start.

        Raises:
            KernelSourceError: AI-MEM-002 when live buffers exceed the memory, AI-MEM-003 when an
                annotated address collides with a live buffer.
        """
        self._ranges = {r.buffer: r for r in ranges}
        for current in ranges:
            self._expire(current.start)
            if current.buffer in self.fixed:
                span = self._pin(current)
            else:
                span = self._take(current)
            self._placed[current.buffer] = span
            self._active.append(current)
        return {buffer: span.start for buffer, span in self._placed.items()}

    def _expire(self, now: int) -> None:
        for ended in sorted((r for r in self._active if r.end < now), key=lambda r: r.end):
            self._active.remove(ended)
            self._free.append(self._placed[ended.buffer])
        self._free.sort(key=lambda span: (span.start, span.size))
        merged: list[_Span] = []
        for span in self._free:
            if merged and merged[-1].end >= span.start:
                end = max(merged[-1].end, span.end)
                merged[-1] = _Span(start=merged[-1].start, size=end - merged[-1].start)
            else:
                merged.append(span)
        self._free = merged

    def _pin(self, current: LiveRange) -> _Span:
        span = _Span(start=align_up(self.fixed[current.buffer]), size=self.sizes[current.buffer])
        for other in self._active:
            if span.overlaps(self._placed[other.buffer]):
                raise KernelSourceError(
                    "AI-MEM-003",
                    f"{current.buffer.name!r} is annotated to {self.memory} address {span.start}.."
                    f"{span.end}, where {other.buffer.name!r} is still alive "
                    f"({self._placed[other.buffer].start}..{self._placed[other.buffer].end})",
                    where=current.buffer.loc,
                    rule="with tl.ascend_memory_planning two live buffers cannot share bytes",
                    fix="change the address, or switch memory planning off to alias on purpose",
                )
        if span.start > self._top:
            self._free.append(_Span(start=self._top, size=span.start - self._top))
        self._top = max(self._top, span.end)
        return span

    def _take(self, current: LiveRange) -> _Span:
        size = self.sizes[current.buffer]
        fresh = _Span(start=align_up(self._top), size=size)
        if fresh.end <= self.limit and not self._hits_fixed(fresh, current):
            self._top = fresh.end
            return fresh
        span = self._reuse(current, size)
        if span is None:
            raise self._overflow(current, size)
        self._cut(span)
        return span

    def _reuse(self, current: LiveRange, size: int) -> _Span | None:
        self._free.sort(key=lambda span: (span.start, span.size))
        for block in self._free:
            span = self._fit(block, current, size)
            if span is not None:
                return span
        if not self._free or self._free[-1].end != self._top:
            return None
        self._top = self.limit  # the last free block grows into the memory never used
        last = self._free[-1]
        last.size = self.limit - last.start
        return self._fit(last, current, size)

    def _fit(self, block: _Span, current: LiveRange, size: int) -> _Span | None:
        span = _Span(start=align_up(block.start), size=size)
        if span.end > block.end or self._hits_fixed(span, current):
            return None
        return span

    def _cut(self, span: _Span) -> None:
        for index, block in enumerate(self._free):
            if block.start <= span.start < block.end:
                rest = []
                if span.start > block.start:
                    rest.append(_Span(start=block.start, size=span.start - block.start))
                if span.end < block.end:
                    rest.append(_Span(start=span.end, size=block.end - span.end))
                self._free[index : index + 1] = rest
                return

    def _hits_fixed(self, span: _Span, current: LiveRange) -> bool:
        for buffer, address in self.fixed.items():
            other = self._ranges.get(buffer)
            if other is None or other is current:
                continue
            alive_together = current.start < other.end and other.start < current.end
            if alive_together and span.overlaps(_Span(start=address, size=self.sizes[buffer])):
                return True
        return False

    def _overflow(self, current: LiveRange, size: int) -> KernelSourceError:
        live = sorted(
            (self.sizes[r.buffer], r.buffer.name)
            for r in self._active
            if r.buffer is not current.buffer
        )
        listing = ", ".join(f"{name} {count}" for count, name in reversed(live))
        needed = size + sum(count for count, _ in live)
        return KernelSourceError(
            "AI-MEM-002",
            f"{self.memory} overflow: {current.buffer.name!r} needs {size} bytes "
            f"while {listing or 'nothing'} (bytes) are alive: "
            f"{needed} of {self.limit} usable bytes",
            where=current.buffer.loc,
            rule=f"buffers alive at the same time must fit {self.memory}, in one piece each",
            fix="use smaller tiles, or end the use of one of these buffers earlier",
        )
