"""Copies between the core types of a block: L0C -> UB and UB -> L1.

The compiler turns them into a store to, and a load from, a global workspace
that it allocates itself.
"""

from __future__ import annotations

from kernels_npu.errors import UnsupportedError
from kernels_npu.sim import ir
from kernels_npu.sim.passes.ownership import VIRTUAL_PATHS, copy_scopes


def lower_virtual_channels(func: ir.PrimFunc) -> ir.PrimFunc:
    """`func` without direct copies between core types.

    Raises:
        UnsupportedError: AI-MEM-020 when it has one;
            the simulator does not allocate the workspace yet.
    """
    for stmt in ir.walk(func.body):
        if isinstance(stmt, ir.TileOp) and stmt.op == "copy" and copy_scopes(stmt) in VIRTUAL_PATHS:
            source, destination = (scope.upper() for scope in copy_scopes(stmt) or ("", ""))
            raise UnsupportedError(
                "AI-MEM-020",
                f"T.copy from {source} to {destination} goes through an automatic workspace in "
                "global memory, which the simulator does not allocate",
                where=stmt.loc,
                rule="L0C -> UB and UB -> L1 have no direct path on A2/A3",
                fix="copy through a workspace parameter: L0C -> GM -> UB, or UB -> GM -> L1",
            )
    return func
