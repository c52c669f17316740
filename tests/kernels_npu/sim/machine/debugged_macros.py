"""A macro in a file of its own, for the debugger's tests."""

from __future__ import annotations

from kernels_npu.sim.frontend import T


@T.macro
def halve(tile: T.Buffer) -> None:
    T.tile.mul(tile, tile, 0.5)
    T.barrier_all()
