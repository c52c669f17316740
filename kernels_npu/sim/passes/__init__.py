"""What the adapter compiler does with a kernel before code generation, as pure functions on the IR.

`lower` is the whole interface. The passes run in the compiler's order: scope inference, hidden
temporaries, the split into core programs, automatic cross-core flags, memory planning.
"""

from __future__ import annotations

from kernels_npu.sim.passes.lowering import (
    AUTO_CV_COMBINE,
    AUTO_CV_SYNC,
    AUTO_SYNC,
    MEMORY_PLANNING,
    PASS_CONFIGS,
    LoweredKernel,
    lower,
)
from kernels_npu.sim.passes.notes import Note

__all__ = [
    "AUTO_CV_COMBINE",
    "AUTO_CV_SYNC",
    "AUTO_SYNC",
    "MEMORY_PLANNING",
    "PASS_CONFIGS",
    "LoweredKernel",
    "Note",
    "lower",
]
