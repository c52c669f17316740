"""What the adapter compiler does with a kernel before code generation, as pure functions on the IR.

`lower` is the whole interface. Hidden temporaries, scope inference, the split into core programs,
automatic cross-core flags and memory planning give what the compiler's passes of these names give;
`T.Kernel(threads=2)` and copies that need an automatic workspace are refused.
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
