"""The few names of TVM's Python that scripts of the dialect touch.

There is no TVM here: `TVMError` is what a kernel's errors are in this front end, and the names of
`tir` make and recognise the front end's own buffers and operations.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from kernels_npu.errors import AscendInferError
from kernels_npu.sim import ir
from kernels_npu.sim.frontend.language.memory import dtype_name
from kernels_npu.sim.frontend.language.surface import DialectModule
from kernels_npu.sim.frontend.values import Intrinsic, LooseBuffer, PendingOp


def decl_buffer(
    shape: Any, dtype: str = "float32", name: str = "buffer", *, scope: str = "ub", **unused: Any
) -> LooseBuffer:
    """A buffer outside of any kernel: enough to ask an operation what it makes of it."""
    del unused
    extents = tuple(shape) if isinstance(shape, (list, tuple)) else (shape,)
    return LooseBuffer(name=name, shape=extents, dtype=dtype_name(dtype), scope=scope)


def build() -> Any:
    """The module `tvm`."""
    op = ModuleType("tvm.tir.op", "Intrinsics by name.")
    vars(op).update(Op=Intrinsic)
    tir = DialectModule("tvm.tir", "Buffers and calls of the front end, under TVM's names.")
    vars(tir).update(decl_buffer=decl_buffer, Call=PendingOp, Buffer=ir.Buffer, Var=ir.Var, op=op)
    tvm = DialectModule("tvm", __doc__ or "")
    vars(tvm).update(TVMError=AscendInferError, tir=tir)
    return tvm
