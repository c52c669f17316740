"""The machine: compiles a kernel's IR to Python per core and executes it with the checks.

`compile_kernel` and `CompiledKernel` are the whole interface to the rest of the package.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernels_npu.sim import ir
from kernels_npu.sim.machine.compiled import CompiledKernel, LaunchRecord
from kernels_npu.sim.machine.counters import Counters
from kernels_npu.sim.machine.findings import Access, Finding, HazardError
from kernels_npu.sim.machine.memory import GmArg
from kernels_npu.sim.soc import Soc

__all__ = [
    "Access",
    "CompiledKernel",
    "Counters",
    "Finding",
    "GmArg",
    "HazardError",
    "LaunchRecord",
    "compile_kernel",
]


def compile_kernel(
    func: ir.PrimFunc, *, target: str, pass_configs: Mapping[str, bool], soc: Soc
) -> CompiledKernel:
    """Compile `func` for `target` (`ascendc` or `pto`) under the compiler's pass configs."""
    return CompiledKernel(func, target, pass_configs, soc)
