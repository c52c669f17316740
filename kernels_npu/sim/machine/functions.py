"""Transcendental functions, rounded once.

NumPy's float32 `exp` is off by a bit for two of five arguments, and kernels that round its result
to half precision then differ from everything else that computes the same. Through float64 the
result is the nearest float32 but for one in millions. Half precision goes through that float32,
as in PyTorch operations on the device: a script that compares the two sees one rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kernels_npu.sim.machine.instruction import AnyArray

Function = Callable[..., Any]


def rounded_once(function: np.ufunc) -> Function:
    """`function(a, out=None)`, where float32 is computed in float64, and float16 as float32."""

    def compute(a: Any, out: AnyArray | None = None) -> Any:
        if getattr(a, "dtype", None) == np.float16:
            wide = function(a, dtype=np.float64).astype(np.float32)
            if out is None:
                return wide.astype(np.float16)
            out[...] = wide
            return out
        if getattr(a, "dtype", None) != np.float32:
            return function(a) if out is None else function(a, out)
        if out is None:
            return function(a, dtype=np.float64).astype(np.float32)
        return function(a, out, dtype=np.float64, casting="unsafe")

    return compute


exp, exp2, log, log2, sin, cos, tanh = map(
    rounded_once, (np.exp, np.exp2, np.log, np.log2, np.sin, np.cos, np.tanh)
)
