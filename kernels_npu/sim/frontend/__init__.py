"""The front end of the simulated NPU: the adapter dialect's modules and its parser.

`T` and `tilelang` are what kernel files use; `parse` turns a kernel function into `ir.PrimFunc`.
Nothing here imports torch.
"""

from __future__ import annotations

from kernels_npu.sim.frontend.entry import PrimFuncObject, parse, prim_func
from kernels_npu.sim.frontend.jit import JITFactory, JITKernel
from kernels_npu.sim.frontend.shims import T, install_shims, tilelang

__all__ = [
    "JITFactory",
    "JITKernel",
    "PrimFuncObject",
    "T",
    "install_shims",
    "parse",
    "prim_func",
    "tilelang",
]
