"""`T.Pipelined`: what the compiler makes of software-pipelined loops.

Two independent passes. A loop that mixes cube and vector work and stores to global memory is
spread over groups of iterations (`cross_core`), before flags between the cores are inserted. Every
other pipelined loop gets a prologue that loads ahead, a steady loop and an epilogue (`injection`),
in each core's program. Both keep several versions of buffers (`versions`), which count as bytes.
The passes follow the compiler exactly. Where it changes what the program means, the kernel gets an
error note (AI-PIPE-010 and above) and is not executed.
"""

from __future__ import annotations

from kernels_npu.sim.passes.pipelining.accesses import Accesses
from kernels_npu.sim.passes.pipelining.cross_core import (
    CROSS_INTERVAL,
    STAGE_LOOP,
    pipeline_across_cores,
)
from kernels_npu.sim.passes.pipelining.injection import Homes, Injector, num_stages
from kernels_npu.sim.passes.pipelining.versions import RUN_TIME_ADDRESS, Versions

__all__ = [
    "CROSS_INTERVAL",
    "RUN_TIME_ADDRESS",
    "STAGE_LOOP",
    "Accesses",
    "Homes",
    "Injector",
    "Versions",
    "num_stages",
    "pipeline_across_cores",
]
