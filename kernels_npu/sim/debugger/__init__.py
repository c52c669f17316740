"""Statement-level debugging of kernels in Python's own debugger."""

from __future__ import annotations

from kernels_npu.sim.debugger.breakpoints import Breakpoint

__all__ = ["Breakpoint"]
