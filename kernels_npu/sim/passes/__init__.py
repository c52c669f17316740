"""What the adapter compiler does with a kernel before code generation, as pure functions on the IR.

`lower` is the whole interface. Hidden temporaries, scope inference, the split over vector cores
(`T.Kernel(threads=2)`), automatic workspaces, the split into core programs, automatic cross-core
flags and memory planning give what the compiler's passes of these names give. Where one of them is
known to generate something that the program cannot mean, the meaning is kept and a note says so.
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
