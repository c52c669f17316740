"""The simulated NPU: runs adapter-dialect kernels on a CPU with cores, pipes, flags and hazards."""

from __future__ import annotations

from kernels_npu.sim.config import (
    Checks,
    SimConfig,
    configure,
    current_config,
    set_default_config,
)
from kernels_npu.sim.debugger import Breakpoint
from kernels_npu.sim.reporting import SimReport, collect_report
from kernels_npu.sim.tracing import trace

__all__ = [
    "Breakpoint",
    "Checks",
    "SimConfig",
    "SimReport",
    "collect_report",
    "configure",
    "current_config",
    "set_default_config",
    "trace",
]
